"""The questions users ask, and the one pipeline behind them."""
