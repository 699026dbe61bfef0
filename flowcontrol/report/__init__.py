"""The report page, and tables and progress bars of the terminal.

Nothing is printed on import, and plotly is loaded only when a page is written.
"""

from flowcontrol.report.html import report_page, write_report
from flowcontrol.report.progress import RunProgress
from flowcontrol.report.terminal import StageTable, print_summary

__all__ = ["RunProgress", "StageTable", "print_summary", "report_page", "write_report"]
