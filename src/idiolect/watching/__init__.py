"""Watches what is under way as a page in the browser, from the files of its folder alone."""

from idiolect.watching.folder_kinds import watcher
from idiolect.watching.local_pages import page_server
from idiolect.watching.view import Figure, Table, View

__all__ = ["Figure", "Table", "View", "page_server", "watcher"]
