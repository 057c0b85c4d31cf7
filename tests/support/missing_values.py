"""Whether debias scores forests and trees that the installed scikit-learn trained with missing values."""

from __future__ import annotations

from support.versions import at_least, needs

WHY = "grows trees with missing values on other rows than their splits say, so debias refuses them"
IN_FORESTS = at_least("scikit-learn", "1.8")
needs_them_in_forests = needs("scikit-learn", "1.8", WHY)
