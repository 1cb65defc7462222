# SPDX-License-Identifier: Apache-2.0
"""NearStorageCache: a transformers cache whose attention is computed where K and V lie. Patches no model.

`update` stores nothing; it returns handles. The attention function that the handles meet appends the rows and computes,
and the mask function keeps the 2-D padding mask reachable instead of a [query, key] matrix.
"""

from nearkv.adapters.transformers.cache import NearStorageCache
from nearkv.adapters.transformers.errors import ContextTooLong, UnsupportedFeature, ValueOutOfRange

__all__ = ["ContextTooLong", "NearStorageCache", "UnsupportedFeature", "ValueOutOfRange"]
