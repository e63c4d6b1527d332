import type { ToolAnswer } from './mcp-process.ts'

/** A paid tool with arguments that it takes. */
export interface PaidTool {
  readonly name: string
  readonly args: (mark: string) => Readonly<Record<string, unknown>>
}

/** The paid tools of the local server; `transcribe` reads `recording.mp3` of the folder. */
export const PAID_TOOLS: readonly PaidTool[] = [
  { name: 'chat', args: (mark) => ({ prompt: `Say ${mark}.`, max_tokens: 20 }) },
  { name: 'speak', args: (mark) => ({ text: `Say ${mark}.` }) },
  { name: 'generate_image', args: (mark) => ({ prompt: `Draw ${mark}.` }) },
  { name: 'transcribe', args: () => ({ path: 'recording.mp3' }) },
]

/** Returns what an agent sees of an answer, as bytes; what may differ between repetitions is in `_meta`. */
export function bytesOf({ content, structuredContent, isError }: ToolAnswer): string {
  return JSON.stringify({ isError: isError ?? false, content, structuredContent })
}
