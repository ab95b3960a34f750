"""Files for the programs that stand around engines and gateways."""
