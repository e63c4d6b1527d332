/** Its own declarations import each other without extensions, which `NodeNext` does not resolve. */
declare module 'media-captions' {
  interface TextNode {
    readonly type: 'text'
    readonly data: string
  }
  interface BlockNode {
    readonly type: string
    readonly children: readonly VTTNode[]
  }
  export type VTTNode = TextNode | BlockNode
  interface ParsedCue {
    readonly startTime: number
    readonly endTime: number
    readonly text: string
  }
  export function parseText(text: string, options: { type: 'srt' | 'vtt' }): Promise<{ readonly cues: ParsedCue[] }>
  export function tokenizeVTTCue(cue: ParsedCue): VTTNode[]
}
