# SPDX-License-Identifier: Apache-2.0
"""Where models come from: a name, a folder or a GGUF file. Knows nothing of cards or of the KV cache."""
