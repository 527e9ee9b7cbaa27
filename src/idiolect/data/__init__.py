"""Data of one's own as problems: tables, texts, pictures in folders, and the files of LEAF.

What holds rows may be a file, a frame, arrays or another library's data set; no library is imported before it is used.
"""

from idiolect.data.columns import Columns
from idiolect.data.leaf_problems import femnist, shakespeare
from idiolect.data.ownership import ClientRows, by_client
from idiolect.data.picture_folders import images
from idiolect.data.sources_of_rows import read_columns
from idiolect.data.table_problem import table
from idiolect.data.text_problem import per_token, text

__all__ = [
    "ClientRows",
    "Columns",
    "by_client",
    "femnist",
    "images",
    "per_token",
    "read_columns",
    "shakespeare",
    "table",
    "text",
]
