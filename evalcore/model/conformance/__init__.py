"""Whether a backend answers as a model is to be asked: `examine` any, read the report.

from evalcore.model.conformance import examine
print(examine(model))
"""

from evalcore.model.conformance.examination import Finding, Report, examine
from evalcore.model.conformance.examinee import Reference

__all__ = ["Finding", "Reference", "Report", "examine"]
