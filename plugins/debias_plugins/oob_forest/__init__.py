"""The OOB forest of Deng, Runger and Tuv (2011)."""
