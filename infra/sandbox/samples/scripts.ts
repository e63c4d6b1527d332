/** One spoken stretch of a sample, or the bell. */
export type Line =
  | { readonly bell: true }
  | { readonly speaker?: string; readonly voice: string; readonly text: string }

export interface Sample {
  readonly file: string
  readonly title: string
  /** ISO 639-2 code. */
  readonly language: string
  readonly wordsPerMinute: number
  readonly lines: readonly Line[]
}

const conductor = 'en-gb+max'
const ann = 'en-us+Annie'
const ben = 'en-gb-scotland+benjamin'
const machine = 'it+linda'

/** The spoken samples. Voices are espeak-ng's, with a variant after the plus sign. */
export const samples: readonly Sample[] = [
  {
    file: 'last-tram.mp3',
    title: 'The last tram',
    language: 'eng',
    wordsPerMinute: 165,
    lines: [
      { bell: true },
      {
        voice: conductor,
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
    wordsPerMinute: 170,
    lines: [
      { speaker: 'Ann', voice: ann, text: 'Is this the tram to the language models? I have no account.' },
      { speaker: 'Ben', voice: ben, text: 'Nobody has. You need a wallet, and about half a cent.' },
      { speaker: 'Ann', voice: ann, text: 'And if I pay and nothing comes back?' },
      {
        speaker: 'Ben',
        voice: ben,
        text: 'Then you have not paid. The farebox only swallows a coin when the ride is over.',
      },
      { speaker: 'Ann', voice: ann, text: 'That is not how my telephone company works.' },
      { bell: true },
      { speaker: 'Ben', voice: ben, text: 'There it comes. After you.' },
    ],
  },
  {
    file: 'biglietteria-cortese.mp3',
    title: 'La biglietteria più cortese',
    language: 'ita',
    wordsPerMinute: 160,
    lines: [
      {
        voice: machine,
        text:
          'Buongiorno! Sono la biglietteria più cortese della città. Non chiedo il nome, né la carta, né la password. ' +
          'Prima ti dico quanto può costare, poi tu firmi, e solo alla fine incasso, mai un centesimo di più. ' +
          'Se la corsa non parte, la moneta resta nella tua tasca. Ecco la ricevuta: conservala, perché è la verità.',
      },
    ],
  },
]

/** The script as it stands in the lyrics tag: `Ann: …` for named speakers, `(bell)` for the bell. */
export function scriptOf({ lines }: Sample): string {
  return lines
    .map((line) => {
      if ('bell' in line) return '(bell)'
      return line.speaker === undefined ? line.text : `${line.speaker}: ${line.text}`
    })
    .join('\n')
}
