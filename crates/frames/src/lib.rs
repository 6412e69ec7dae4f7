//! Building and parsing frames, the test tag, size mixes, pcap.
