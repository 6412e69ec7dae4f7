//! Examples and remarks that follow the options in the help of commands: of those whose remarks are long.

/// Of `kpps curve`.
pub const CURVE: &str = "Examples:
  kpps curve --driver kpps --load 50%..100%/10%                        in the simulator
  kpps curve --report curve.html --csv curve.csv
  kpps curve --ports packet:A,packet:B --load 100kpps..1Mpps/100kpps --resume curve.jsonl
  kpps curve --ports packet:A,packet:B --size imix-csit --bidirectional --flows 1000
  kpps curve --testbed lab:linux-6.1/e1000,lab:linux-6.1/e1000/dpdk-uio --set linux.RxIntDelay=100

Several guests in QEMU may be compared, each with the kernel's driver (lab:KERNEL/DEVICE) or another one
(lab:KERNEL/DEVICE/DRIVER-BACKEND), and with an app: receive, route or bridge, as
lab:linux-6.1/e1000/linux/route. With --bidirectional a load is that of each direction, and results are
of both together. --max-loss and --max-p99 bound each point, --min-rate the best rate of each series.";

/// Of `kpps compare`.
pub const COMPARE: &str = "Examples:
  for i in 1 2 3 4 5 6 7 8; do                 take turns, because a system drifts
      kpps trial --ports packet:a,packet:b --load 200kpps --json >> before.json
      kpps trial --ports packet:a,packet:c --load 200kpps --json >> after.json
  done
  kpps compare before.json after.json --threshold 2%   exit code 1 if something is worse by more

Each side is a file, several files with commas between them, or a folder of .json files. A file may hold
several documents, one after the other. kpps compares trials, curves, grids, searches (ndr, sizes) and rows
of the lab that have the same sizes, loads and durations on all sides. If each side has measured one system
only, their names may differ.

Quantities: delivered frames per second, latency (p50 and p99), CPU time per delivered frame (without idle
polls), NDR, PDR and MRR. The test is the exact rank-sum test (Wilcoxon, Mann and Whitney) with Holm's
correction for all comparisons made: the more quantities are compared, the more repetitions it takes. A
single value never decides, but for counts of `kpps lab --clock instructions`, which repeat within 2 %.";

/// Of `kpps study`.
pub const STUDY: &str = "Examples:
  kpps study                              all claims of all papers
  kpps study beyond                       kpps' driver on machines drawn at random
  kpps study --report pages               a page of each, and one of all: studies.html
  kpps study --perturb 10%                which verdicts change when fitted constants change
  kpps study --fit                        find the fitted constants again
  kpps study rdr2007 --set 'host.cache_miss_ps=*1.1'

Verdicts: pass, miss, predicted (the result is not known yet), failed (could not be judged).
Exit code 1 if a claim is missed that is arithmetic or was used for fitting, or if any claim failed.";

/// Of `kpps calibrate-host`.
pub const CALIBRATE_HOST: &str = "Examples:
  kpps curve --testbed lab:linux-6.1/e1000 --results w64.json
  kpps curve --testbed lab:linux-6.1/e1000 --driver-module e1000-w8.ko --results w8.json
  kpps calibrate-host w64.json w8.json,driver.weight=8 --to mine \\
      --machine lab-e1000 --driver linux-6.1-e1000
  kpps curve --machine mine/machine.toml --set driver.rx_ring=80

What counts of each point is the CPU time for a delivered frame. Where the CPU was not observed, only points
that lost more than 5 % of the frames count, and the CPU is taken to have been busy all the time: leave out
curves that lost frames for another reason, as a short ring. Measure light and heavy loads, and two settings
that differ in what the CPU has to do.";

/// Of `kpps grid`.
pub const GRID: &str = "Examples:
  kpps grid --machine ols2005 --driver intel-5.7.6 --vary driver.weight=1..64*2 --vary load=50%,100%
  kpps grid --vary driver.rx_ring=16..1024*2 --vary host.interrupt_ps=1000000,5000000,9000000
  kpps grid --vary driver=kpps,click-polling --vary size=64,128,256 --vary load=50%,100% --csv -
  kpps grid --ports packet:A,packet:B --vary size=64,imix-csit --vary load=50kpps,100kpps

A parameter is a constant by its path (`kpps list KIND NAME` shows them: driver.rx_ring,
driver.moderation.rdtr or short driver.rdtr, chip.…, bus.…, host.…, stack.…, machine.…), or one of load,
size, driver, chip, machine, app, one-way. On ports, guests and known: testbeds the parameters are load and size,
mixes of sizes among them. Values: 16,32,64; 1..64 in steps of 1; 10..100/30 in steps of 30; 16..1024*2 by a
factor of 2.

With --resume FILE an interrupted grid can be continued, and a grid with more values measures only those
that are missing. A cell is reused only if kpps and all profiles are the same; on ports, if all that is known
of the ports and the device under test is. One kept cell is measured again before the others are used.";

/// Of `kpps trace`.
pub const TRACE: &str = "Examples:
  kpps trace                                 an overload: smooth at first, then short of descriptors
  kpps trace --driver rdr --load 100%        the same with recycled descriptors
  kpps trace --window 30000..40000           plot these bus clocks
  kpps trace --csv bus.csv --timeline registers.csv --pcap wire.pcap";
