/** Returns a generator of numbers between 0 and 1, determined by `seed` (mulberry32, ample for choosing faults). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Returns a whole number of at least `low` and less than `high`. */
export function between(random: () => number, low: number, high: number): number {
  return Math.floor(low + random() * (high - low))
}

/** Returns one of `choices`, which must not be empty. */
export function pick<T>(random: () => number, choices: readonly T[]): T {
  const chosen = choices[Math.floor(random() * choices.length)]
  if (chosen === undefined) throw new RangeError('nothing to choose from')
  return chosen
}

/** Returns the items in random order. */
export function shuffled<T>(random: () => number, items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ item }) => item)
}
