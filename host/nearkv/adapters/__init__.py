# SPDX-License-Identifier: Apache-2.0
"""What joins nearkv to libraries that run models, one package per library. Nothing here knows cards or files."""
