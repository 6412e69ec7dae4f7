//! Chips, buses, hosts, stacks, machines and driver presets as data, each constant with its source.
