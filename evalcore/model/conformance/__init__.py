"""Whether a backend answers as a model is to be asked: `examine` any, read the report.

from evalcore.model.conformance import examine
print(examine(model))
"""

from evalcore.model.conformance.examination import examine
from evalcore.model.conformance.reference import Reference
from evalcore.model.conformance.report import Finding, Report

__all__ = ["Finding", "Reference", "Report", "examine"]
