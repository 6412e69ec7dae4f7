//! The option that chooses the cores of a port.

use crate::error::Failure;
use kpps_ports::port::run::CpuList;

/// The most cores of a port.
const MOST_CORES: usize = 64;

/// The cores of a port.
#[derive(Clone, Debug)]
pub struct Cores {
    /// Their number.
    pub count: usize,
    /// Their CPUs, if they are given.
    pub cpus: Option<CpuList>,
}

impl Cores {
    /// Reads a number of cores, or a list of CPUs.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("give a number of cores from 1 to {MOST_CORES}, or a list of CPUs, as 0,2 or 0-1");
        if let Ok(count) = text.trim().parse() {
            return match (1..=MOST_CORES).contains(&count) {
                true => Ok(Self { count, cpus: None }),
                false => Err(wrong()),
            };
        }
        let cpus: CpuList = text.parse().map_err(|_| wrong())?;
        let count = cpus.numbers().len();
        if count > MOST_CORES { Err(wrong()) } else { Ok(Self { count, cpus: Some(cpus) }) }
    }

    /// Refuses several cores where they would have nothing to do: there are this many flows, or streams; and
    /// ports of other hosts.
    pub fn check(&self, flows: usize, streams: Option<usize>, are_here: bool) -> Result<(), Failure> {
        let cores = self.count;
        let why = match streams {
            _ if cores == 1 => return Ok(()),
            _ if !are_here => "ports of other hosts have one core each".to_owned(),
            Some(streams) if streams < cores => {
                format!(
                    "cores take streams in turn, and the file has {streams}: give at most {streams} cores"
                )
            }
            None if flows < cores => {
                format!(
                    "cores take flows in turn, and there are {flows}: give --flows {cores}, or more (a replay runs on one core)"
                )
            }
            _ => return Ok(()),
        };
        Err(Failure::Input(format!("--cores: {why}")))
    }
}
