/** What a page shows. */
export interface View {
  readonly title: string
  /** The template, as a path in `operator/pages` without its extension. */
  readonly view: string
  /** What the template reads as `it.data`. */
  readonly data: object
  /** Whether the page has charts; their scripts are loaded only then. */
  readonly hasCharts?: boolean
}

/** What a page answers when the thing in its path does not exist. */
export interface NotFound {
  readonly notFound: string
}

export function notFound(sentence: string): NotFound {
  return { notFound: sentence }
}

/** What a page answers when another one shows what was asked for. */
export interface Moved {
  /** A path of the console. */
  readonly movedTo: string
}

export function moved(location: string): Moved {
  return { movedTo: location }
}

/** A change that was made: the browser is sent to `location`, which shows `sentence`. */
export interface Done {
  readonly outcome: 'done'
  readonly sentence: string
  /** A path of the console. */
  readonly location: string
}

export function done(sentence: string, location: string): Done {
  return { outcome: 'done', sentence, location }
}

/** A change that is made once it is confirmed by a second form, which this page has. */
export interface Asked {
  readonly outcome: 'asked'
  readonly page: View
}

export function asked(page: View): Asked {
  return { outcome: 'asked', page }
}

/** A change that was not made: the form is shown again with what was entered, and why. */
export interface Refused {
  readonly outcome: 'refused'
  readonly sentence: string
  /** Sentences by the name of the field that they are about. */
  readonly fieldErrors: Readonly<Record<string, string>>
}

export function refused(sentence: string, fieldErrors: Readonly<Record<string, string>> = {}): Refused {
  return { outcome: 'refused', sentence, fieldErrors }
}
