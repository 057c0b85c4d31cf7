"""debias in other libraries: scikit-learn's selection, MLflow, skore."""
