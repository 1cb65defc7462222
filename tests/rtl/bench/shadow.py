# SPDX-License-Identifier: Apache-2.0
"""A model of the buffers: what was written last at each place. No test of its own."""


class Shadow:
    """Places without a value have not been written: what they read is not judged."""

    def __init__(self):
        self.cells = {}
        self.judged = 0

    def read(self, places):
        return [self.cells.get(place) for place in places]

    def write(self, place, value):
        self.cells[place] = value

    def judge(self, want, got):
        """Compares values that were written."""
        for i, (w, g) in enumerate(zip(want, got, strict=True)):
            if w is not None:
                assert g == w, f"value {i}: {g:#x} instead of {w:#x}"
                self.judged += 1
