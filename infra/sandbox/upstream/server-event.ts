/** Returns the frame of one server-sent event. */
export function serverEvent(data: object, name?: string): string {
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** Joins the pieces of a text by groups of `size`. */
export function inGroups(pieces: readonly string[], size: number): string[] {
  return Array.from({ length: Math.ceil(pieces.length / size) }, (_, index) =>
    pieces.slice(index * size, (index + 1) * size).join(''),
  )
}
