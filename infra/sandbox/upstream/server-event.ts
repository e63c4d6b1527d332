/** Returns the frame of one server-sent event. */
export function serverEvent(data: object, name?: string): string {
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
}
