/** The length of the quiet moment that is looked for; a pause between two syllables is as long. */
const MOMENT_MS = 150
const STEP_MS = 10

/**
 * Returns the middle of the moment with the least energy, in milliseconds from the first sample. Of equal ones it returns
 * the last, which makes the part before it longest.
 */
export function quietestMomentMs(samples: Int16Array, sampleRate: number): number {
  const step = Math.max(1, Math.round((sampleRate * STEP_MS) / 1000))
  const energies: number[] = []
  for (let start = 0; start + step <= samples.length; start += step) energies.push(energyOf(samples, start, step))
  const steps = Math.min(energies.length, MOMENT_MS / STEP_MS)
  if (steps === 0) return (samples.length * 500) / sampleRate
  let energy = energies.slice(0, steps).reduce((sum, value) => sum + value, 0)
  let least = energy
  let leastAt = 0
  for (let first = 1; first + steps <= energies.length; first++) {
    energy += (energies[first + steps - 1] as number) - (energies[first - 1] as number)
    if (energy > least) continue
    least = energy
    leastAt = first
  }
  return ((leastAt + steps / 2) * step * 1000) / sampleRate
}

// Squares of 16-bit samples are whole numbers, so the running sum above stays exact.
function energyOf(samples: Int16Array, start: number, count: number): number {
  let sum = 0
  for (let index = start; index < start + count; index++) sum += (samples[index] as number) ** 2
  return sum
}
