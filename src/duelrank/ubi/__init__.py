"""Logs in the form of User Behavior Insights (UBI) 1.3.0: what events say, and lists that were shown with features and clicks."""
