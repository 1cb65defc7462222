# SPDX-License-Identifier: Apache-2.0
"""What the contract says of the descriptors of a list, stage by stage, by the checks of the NumPy model. No test of its
own: see `bench_job_prepare`."""

from nearkv_driver import regmap as rm
from nearkv_emulation.kernel import Region
from nearkv_emulation.model_attend import read_q, read_state
from nearkv_emulation.model_checks import check_header, check_job, padded
from nearkv_emulation.model_descriptors import read_limits, read_segments
from nearkv_emulation.model_memory import Fault, Master
from nearkv_emulation.model_state import state_nbytes

# loaders of job_load
LIMITS, STATE, QUERY = range(3)


def ctl_of(image, lost=None):
    """The ctl master of an image, one word of which may be answered with an error."""
    if lost is None:
        return Master(rm.MASTER_CTL, [Region(image.base, image.memory)])
    at = image.at(lost)
    halves = [Region(image.base, image.memory[:at]), Region(lost + 64, image.memory[at + 64 :])]
    return Master(rm.MASTER_CTL, [part for part in halves if len(part.memory)])


class Model:
    """What the contract says of an image."""

    def __init__(self, image, lost=None):
        self.image, self.ctl = image, ctl_of(image, lost)
        self.jobs, self.windows, self.fault = None, None, None
        try:
            raw = self.ctl.read(image.ctl, rm.LIST.nbytes).tobytes()
            self.jobs, self.windows = check_header(raw, image.kv, image.ctl, image.out)
        except Fault as fault:
            self.fault = fault

    def raw(self, index):
        return self.image.ctl + rm.LIST.nbytes + rm.JOB.nbytes * index

    def stages(self, index):
        """(job, segments, fault) as far as the checks go; a job that has none yet is None."""
        job = segments = None
        try:
            job = check_job(self.ctl.read(self.raw(index), rm.JOB.nbytes).tobytes(), self.windows)
            if job["opcode"] == rm.Opcode.ATTEND:
                read_limits(self.ctl, job)
                segments = read_segments(self.ctl, job, self.windows)
                read_state(self.ctl, job)
                read_q(self.ctl, job)
        except Fault as fault:
            return job, segments, fault
        return job, segments or [], None

    def loads(self, job):
        """(address, words, check) of limits, state and q, as job_load takes them."""
        rows, d_pad = job["rows"], padded(job["head_size"])
        whole = ctl_of(self.image)
        return {
            LIMITS: (job["limits_addr"], -(-job["query_tokens"] // 8), lambda: read_limits(whole, job)),
            STATE: (job["state_in"], state_nbytes(rows, d_pad) // 64, lambda: read_state(whole, job)),
            QUERY: (job["q_addr"], rows * d_pad * 4 // 64, lambda: read_q(whole, job)),
        }
