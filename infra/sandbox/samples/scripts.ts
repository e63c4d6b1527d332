/** One spoken stretch of a sample, or the bell. */
export type Line =
  | { readonly bell: true }
  | { readonly speaker?: string; readonly voice: string; readonly text: string }

export interface Sample {
  readonly file: string
  readonly title: string
  /** ISO 639-2 code. */
  readonly language: string
  readonly lines: readonly Line[]
}

const CONDUCTOR = 'darian'
const ANN = 'talia'
const BEN = 'darian'
/** A voice of espeak-ng, with its variant after the plus sign. */
const MACHINE = 'it+linda'

/** The spoken samples. Voices of English are the sandbox's. */
export const samples: readonly Sample[] = [
  {
    file: 'last-tram.mp3',
    title: 'The last tram',
    language: 'eng',
    lines: [
      {
        voice: CONDUCTOR,
        text:
          'Good evening, and mind the step. I am the farebox. I keep no names, no passwords and no monthly plans. ' +
          'Tell me where you are going, and I tell you the most it can cost. Drop in your coins, and we leave. ' +
          'If the tram breaks down, the coins roll back to you. ' +
          'And at your stop I print a receipt, because an honest machine remembers what it was paid.',
      },
      { bell: true },
    ],
  },
  {
    file: 'two-at-the-stop.mp3',
    title: 'Two at the stop',
    language: 'eng',
    lines: [
      { speaker: 'Ann', voice: ANN, text: 'Is this the tram to the language models? I have no account.' },
      { speaker: 'Ben', voice: BEN, text: 'Nobody has. You need a wallet, and about half a cent.' },
      { speaker: 'Ann', voice: ANN, text: 'And if I pay and nothing comes back?' },
      {
        speaker: 'Ben',
        voice: BEN,
        text: 'Then you have not paid. The farebox only swallows a coin when the ride is over.',
      },
      { speaker: 'Ann', voice: ANN, text: 'That is not how my telephone company works.' },
      { bell: true },
      { speaker: 'Ben', voice: BEN, text: 'There it comes. After you.' },
    ],
  },
  {
    file: 'biglietteria-cortese.mp3',
    title: 'La biglietteria più cortese',
    language: 'ita',
    lines: [
      {
        voice: MACHINE,
        text:
          'Buongiorno! Sono la biglietteria più cortese della città. Non chiedo il nome, né la carta, né la password. ' +
          'Prima ti dico quanto può costare, poi tu firmi, e solo alla fine incasso, mai un centesimo di più. ' +
          'Se la corsa non parte, la moneta resta nella tua tasca. Ecco la ricevuta: conservala, perché è la verità.',
      },
    ],
  },
]

/** Returns the script for the lyrics tag: `Ann: …` for named speakers, `(bell)` for the bell. */
export function scriptOf({ lines }: Sample): string {
  return lines
    .map((line) => {
      if ('bell' in line) return '(bell)'
      return line.speaker === undefined ? line.text : `${line.speaker}: ${line.text}`
    })
    .join('\n')
}
