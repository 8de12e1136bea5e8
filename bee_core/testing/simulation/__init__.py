"""Programs in simulated time: many processes in one thread, in an order that a seed decides.

    simulation = Simulation(seed=7)
    process = simulation.process("worker")
    process.start(worker.run())
    simulation.run(main())

Nothing ever waits: when nobody has anything to do, the clock jumps to the next timer. What happens
at the same moment happens in an order drawn from the seed, so a run that goes wrong goes wrong in
the same way again. A process can be killed as by -9, or stopped for a while. Workers of bee bring
their heartbeats along; plain functions as handlers need a thread, and have no place here.
"""

from bee_core.testing.simulation.loop import SimulatedLoop
from bee_core.testing.simulation.simulation import Killed, Nothing, Process, Simulation

__all__ = ["Killed", "Nothing", "Process", "SimulatedLoop", "Simulation"]
