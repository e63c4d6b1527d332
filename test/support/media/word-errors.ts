/** Returns the share of the reference's words that are wrong in `heard`: changed, left out or added. */
export function wordErrorRate(reference: string, heard: string): number {
  const [expected, found] = [wordsOf(reference), wordsOf(heard)]
  // The edits from the words so far to each beginning of what was found.
  let edits = Array.from({ length: found.length + 1 }, (_, index) => index)
  for (const word of expected) {
    let diagonal = edits[0] ?? 0
    let left = diagonal + 1
    edits = edits.map((above, column) => {
      if (column === 0) return left
      left = Math.min(left + 1, above + 1, diagonal + (word === found[column - 1] ? 0 : 1))
      diagonal = above
      return left
    })
  }
  return (edits.at(-1) ?? 0) / expected.length
}

function wordsOf(text: string): string[] {
  return (
    text
      .toLowerCase()
      .replaceAll('-', ' ')
      .match(/[a-z']+/g) ?? []
  )
}
