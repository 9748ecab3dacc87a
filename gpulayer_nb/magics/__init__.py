"""`%%gpulayer`, `%%ranks` and `%gpulayer`: parse, make one call, show one thing."""
