import { execFileSync } from 'node:child_process'
import { parseText, tokenizeVTTCue, type VTTNode } from 'media-captions'
import subsrt from 'subsrt-ts'

type Form = 'srt' | 'vtt'

/** Reads with media-captions, a reader for players on the web, and returns the text of each cue that it shows. */
export async function readWithMediaCaptions(file: string, type: Form): Promise<string[]> {
  const { cues } = await parseText(file, { type })
  return cues.map((cue) => textOf(tokenizeVTTCue(cue)))
}

function textOf(nodes: readonly VTTNode[]): string {
  return nodes.map((node) => ('data' in node ? node.data : textOf(node.children))).join('')
}

/** Reads with subsrt-ts, whose texts are without tags and codes and still have WebVTT's escapes. */
export function readWithSubsrt(file: string, format: Form): string[] {
  const texts = subsrt
    .parse(file, { format })
    .flatMap((part) => (part.type === 'caption' ? [part.text.replaceAll('\r\n', '\n')] : []))
  // It ends the last text of a file that follows a line of digits with the line end of the file.
  const trimmed = texts.map((text) => text.replace(/\n$/u, ''))
  if (format === 'srt') return trimmed
  return trimmed.map((text) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'))
}

const PYTHON = `import csv, json, sys
print(json.dumps([row for row in csv.reader(sys.stdin, delimiter="\\t")]))`

/** Reads a table with Python's csv module, whose rules pandas, Excel and others share. */
export function readWithPython(file: string): string[][] {
  const output = execFileSync('python3', ['-c', PYTHON], { input: file, env: { PYTHONIOENCODING: 'utf8' } })
  return JSON.parse(output.toString('utf8')) as string[][]
}
