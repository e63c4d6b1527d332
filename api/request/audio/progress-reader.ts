/** The longest line that is kept until its end arrives. ffmpeg's own have at most 60 characters. */
const MAXIMUM_LINE_CHARACTERS = 256

const SIZE_LINE = /^total_size=(\d{1,15})\s*$/

/**
 * Creates the reader of what `ffmpeg -progress` writes: a few lines twice a second and at the end. `onSize` is called
 * with each size of the output so far, in bytes; what else the child writes is ignored, however much it is.
 */
export function createProgressReader(onSize: (bytes: number) => void): (text: string) => void {
  let incomplete = ''
  return (text) => {
    const lines = (incomplete + text).split('\n')
    incomplete = (lines.pop() ?? '').slice(0, MAXIMUM_LINE_CHARACTERS)
    for (const line of lines) {
      const [, bytes] = SIZE_LINE.exec(line) ?? []
      if (bytes !== undefined) onSize(Number(bytes))
    }
  }
}
