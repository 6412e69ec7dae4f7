"""Campaigns: questions that take more than one machine."""
