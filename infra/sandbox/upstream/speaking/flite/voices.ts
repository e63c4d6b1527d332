/** The voices of flite that are understood well: a woman, a man and a Scot. Its others are robots. */
export type FliteVoice = 'slt' | 'rms' | 'awb'

const WOMEN: ReadonlySet<string> = new Set('talia elara elowen alicia maisie jade florence bella'.split(' '))
const SCOTS: ReadonlySet<string> = new Set('baxter eldrin warren caleb sawyer wyatt'.split(' '))

/** Returns the voice for a vendor's id, which ends with the public alias: `eleven-talia`. */
export function fliteVoiceOf(id: string): FliteVoice {
  const alias = id.slice(id.lastIndexOf('-') + 1)
  return WOMEN.has(alias) ? 'slt' : SCOTS.has(alias) ? 'awb' : 'rms'
}
