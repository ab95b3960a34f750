"""A whole cluster file in virtual time: gateways with views of their own, pools, faults, and who looks after
them."""
