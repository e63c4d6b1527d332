const MOST_SUGGESTIONS = 3
/** Fewer letters occur in almost every name. */
const SHORTEST_PART = 3

/** Returns the known names that a mistyped or abbreviated one may stand for, nearest first. */
export function nearNames(name: string, known: readonly string[]): readonly string[] {
  const asked = name.toLowerCase()
  const tolerance = Math.max(2, Math.floor(asked.length / 4))
  const near = known.flatMap((candidate) => {
    const lowered = candidate.toLowerCase()
    const distance = editDistance(asked, lowered)
    const isPart = asked.length >= SHORTEST_PART && lowered.includes(asked)
    return isPart || distance <= tolerance ? [{ candidate, distance }] : []
  })
  const nearest = Math.min(...near.map(({ distance }) => distance))
  // A slip of the hand has one meaning, while a part of a name has several.
  const meant = nearest <= tolerance ? near.filter(({ distance }) => distance === nearest) : near
  meant.sort((one, other) => one.distance - other.distance)
  return meant.slice(0, MOST_SUGGESTIONS).map(({ candidate }) => candidate)
}

/** Returns the fewest insertions, deletions, replacements and swaps of neighbors that turn one text into the other. */
export function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)]
  for (let row = 1; row <= from.length; row += 1) {
    const [above = [], twoAbove = []] = [rows[row - 1], rows[row - 2]]
    const current = [row]
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current.push(
        Math.min(
          (above[column] ?? Infinity) + 1,
          (current[column - 1] ?? Infinity) + 1,
          (above[column - 1] ?? Infinity) + (isSame ? 0 : 1),
          isSwap ? (twoAbove[column - 2] ?? Infinity) + 1 : Infinity,
        ),
      )
    }
    rows.push(current)
  }
  return rows[from.length]?.[to.length] ?? Infinity
}
