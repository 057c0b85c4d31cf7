"""Fitted models: unwrapping, extraction of trees and its check, refitting, and loading from files."""
