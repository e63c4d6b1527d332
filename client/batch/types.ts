import type { TranscriptionOptions } from '../payment/operations.ts'
import type { SubtitleOptions } from '../subtitles/subtitles.ts'
import type { FareboxError } from '../wire/farebox-error.ts'

/** What is asked of each recording: the fields of a transcription but the file. Words with times are asked by default. */
export type BatchRequest = Partial<Omit<TranscriptionOptions, 'response_format' | 'file_format'>>

export const OUTPUT_FORMATS = ['txt', 'srt', 'vtt', 'tsv', 'json'] as const
export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

/** Where transcripts are written. */
export interface OutputFiles {
  /** Throws unless these files can be written. Creates their folders. */
  requireWritable(paths: readonly string[]): Promise<void>
  /** Writes a transcript that is paid for: it appears under its name only when it is complete. */
  write(path: string, text: string): Promise<void>
}

export interface BatchOutput {
  /** Where transcripts are written, with the folders of the sources; next to the sources by default. */
  readonly folder?: string | undefined
  /**
   * The name of a transcript without its ending, with `{name}` (without the source's ending), `{ext}` (the source's
   * ending), `{folder}` (within the folder that was named) and `{date}` (of the source's modification). `{name}` by
   * default; it may contain slashes.
   */
  readonly template?: string | undefined
  /** Receives transcripts instead of files, one at a time. */
  readonly print?: ((text: string, file: PlannedFile) => void | Promise<void>) | undefined
  /** Takes the place of plain files. */
  readonly files?: OutputFiles | undefined
}

export interface BatchOptions {
  readonly request: BatchRequest
  readonly formats: readonly OutputFormat[]
  readonly output: BatchOutput
  readonly subtitles: SubtitleOptions
  /** Writes the receipts of each transcript next to it, as `a.receipt.json`. */
  readonly receipts: boolean
  /** How many uploads are under way at once; less while the service asks for it. */
  readonly concurrency: number
  /**
   * Prices what has to be split or converted by the length that its file states, and prepares it in the run: its price is a
   * maximum then. Prepared before, its price is exact.
   */
  readonly estimates?: boolean | undefined
  /** Joins short clips, so that the minimum charge is paid once for many. */
  readonly pack: boolean
  /** Overwrites files that have the name of a transcript and are not as an earlier run wrote them. */
  readonly force?: boolean | undefined
  /** Transcribes, and pays for, what is finished already. */
  readonly again: boolean
  readonly ffmpegPath?: string | undefined
  /** Converts copies, so that no other file can take the place of one that was measured while ffmpeg reads it. */
  readonly copiesSources?: boolean | undefined
  /** Whether Permit2 may be approved for all later payments, so that files are sent at the same time; true by default. */
  readonly approves?: boolean | undefined
  /** Interrupts what is under way. It can be taken up later; nothing is paid twice. */
  readonly signal?: AbortSignal | undefined
  /** What the journal calls the calls; `transcribe` by default. */
  readonly purpose?: string | undefined
  /** Whose limits of the budget hold next to those of all calls. */
  readonly group?: string | undefined
  /** Called before a payment is sent; what it throws refuses the payment. */
  readonly beforePayment?: (() => void) | undefined
  /** Lets what is under way finish and begins nothing else. */
  readonly drain?: AbortSignal | undefined
  /** How long a call waits for a service that is away or busy; an hour by default. */
  readonly patienceMs?: number | undefined
}

/** A recording that was found. */
export interface Source {
  /** A path that can be opened; for audio on standard input, that of a temporary copy. */
  readonly path: string
  /** What users read: the path as it was named, or `standard input`. */
  readonly label: string
  /** The path within the folder that was named, or the file's name. */
  readonly name: string
  /** Set for standard input: nothing of it is remembered. */
  readonly isTemporary?: boolean
}

export type FileState =
  /** Will be transcribed. */
  | 'to_do'
  /** An earlier run wrote its transcripts. */
  | 'finished'
  /** Has the content of another file of the batch: it is paid once and written for both. */
  | 'duplicate'
  /** Cannot be transcribed; `error` says why. */
  | 'failed'

/** A file that has the name of a transcript and is not as an earlier run wrote it. */
export interface OccupiedOutput {
  readonly path: string
  /** `foreign`: no run is known to have written it; `changed`: one did, and it may have been corrected since. */
  readonly reason: 'foreign' | 'changed'
}

export interface PlannedFile {
  /** Place in `BatchPlan.files`. */
  readonly index: number
  readonly path: string
  readonly label: string
  readonly name: string
  readonly state: FileState
  /** What the service measures, over all parts; 0 if it is unknown. */
  readonly durationMs: number
  readonly bytes: number
  /** Milliseconds since 1970; 0 if the file is missing. */
  readonly modifiedMs: number
  /** What will be charged in atomic units; a clip's share of its pack; 0 unless it is to do. */
  readonly price: bigint
  /** Set if the price is a maximum, by the length that the file states: it is prepared in the run. */
  readonly isEstimate?: true
  /** How much of it was charged by an earlier run that did not finish, and will not be charged again. */
  readonly alreadyPaid: bigint
  /** How many uploads it is sent in. */
  readonly parts: number
  /** Hexadecimal SHA-256 of a file that was read or is known. */
  readonly sha256?: string
  /** Receipts of the calls that an earlier run finished it with, as far as they are known. */
  readonly receiptIds?: readonly string[]
  readonly treatment?: 'send' | 'cut' | 'convert'
  /** The number of its pack, from 1. */
  readonly pack?: number
  /** The label of the file with the same content. */
  readonly duplicateOf?: string
  /** The transcripts that are, or will be, written. */
  readonly outputs: readonly string[]
  readonly receipt?: string
  /** Files that stay as they are, so that its transcripts have another name; those that `force` overwrites. */
  readonly kept?: readonly OccupiedOutput[]
  readonly overwritten?: readonly OccupiedOutput[]
  /** The names that its transcripts would have without the kept files. */
  readonly preferred?: Pick<PlannedFile, 'outputs' | 'receipt'>
  readonly warnings: readonly string[]
  readonly error?: FareboxError
}

export interface BatchTotals {
  readonly files: number
  readonly toDo: number
  readonly finished: number
  readonly duplicates: number
  readonly failed: number
  /** Existing files that are not as an earlier run wrote them: those that stay, and those that are overwritten. */
  readonly kept: number
  readonly overwritten: number
  /** Uploads that are paid for, each on its own. */
  readonly uploads: number
  readonly packs: number
  /** Of the files to do. */
  readonly durationMs: number
  readonly bytes: number
  /** What the files to do cost, including what is already paid. */
  readonly price: bigint
  readonly alreadyPaid: bigint
  /** What is still to be charged: exactly `price - alreadyPaid`. */
  readonly toCharge: bigint
  /** How many of the files to do have an estimate for a price; then `toCharge` is a maximum. */
  readonly estimated: number
}

export interface BatchPlan {
  readonly files: readonly PlannedFile[]
  readonly totals: BatchTotals
  /** Removes prepared recordings. `runBatch` does it at its end. */
  discard(): Promise<void>
}

/** What a run has reached. */
export interface BatchProgress {
  /** Files that were transcribed and written in this run. */
  readonly finished: number
  readonly skipped: number
  readonly failed: number
  readonly underWay: number
  /** Not begun, or interrupted: a later run does them. */
  readonly notBegun: number
  /** Of the finished files. */
  readonly durationMs: number
  /** What this run was charged, in atomic units. */
  readonly charged: bigint
  /** What had been charged earlier for answers that this run received again. */
  readonly replayed: bigint
}

/** A rule of the style that words force a subtitle to break. */
export interface SubtitleFinding {
  readonly rule: string
  readonly cue: number
  readonly why: string
}

export type BatchEvent =
  /** While a plan is made, for each file. */
  | { readonly event: 'planned'; readonly file: PlannedFile; readonly done: number; readonly of: number }
  | { readonly event: 'totals'; readonly totals: BatchTotals }
  /** Before the first payment, if Permit2 had to be approved. */
  | { readonly event: 'approved'; readonly allowance: bigint }
  | { readonly event: 'started'; readonly file: PlannedFile }
  /** A call waits before it is repeated; `file` is the first of a pack. */
  | {
      readonly event: 'waiting'
      readonly file: PlannedFile
      readonly code: string
      readonly reason: string
      readonly waitMs: number
      /** How long there was no answer, if that is the reason. */
      readonly silentMs?: number
    }
  /** An upload was transcribed. */
  | {
      readonly event: 'part'
      readonly file: PlannedFile
      /** From 1. */
      readonly part: number
      readonly parts: number
      readonly charged: bigint
      readonly replayed: boolean
    }
  | {
      readonly event: 'finished'
      readonly file: PlannedFile
      readonly charged: bigint
      readonly replayed: boolean
      readonly receiptIds: readonly string[]
      readonly transactions: readonly string[]
      readonly violations: readonly SubtitleFinding[]
      readonly elapsedMs: number
    }
  | { readonly event: 'failed'; readonly file: PlannedFile; readonly error: FareboxError; readonly charged: bigint }
  | { readonly event: 'skipped'; readonly file: PlannedFile }
  /** The limit changed; `reason` is the code of the error, or `recovered`. */
  | { readonly event: 'concurrency'; readonly concurrency: number; readonly reason: string }
  | { readonly event: 'warning'; readonly file?: PlannedFile; readonly code: string; readonly text: string }
  /** Nothing more is begun. */
  | {
      readonly event: 'stopping'
      readonly stoppedBy: StoppedBy
      readonly underWay: number
      readonly error?: FareboxError
    }
  /** After each change of its figures. */
  | { readonly event: 'progress'; readonly progress: BatchProgress }

export type OnBatchEvent = (event: BatchEvent) => void

export type StoppedBy =
  | 'budget'
  /** The wallet cannot pay: its funds, its allowance, or a debt. */
  | 'funds'
  | 'interrupt'
  /** The service is away for longer than the patience, or asks for other terms. */
  | 'service'
  /** The journal or the wallet of this machine cannot be used. */
  | 'local'

export interface FileFailure {
  readonly file: PlannedFile
  readonly error: FareboxError
}

export interface BatchOutcome extends BatchProgress {
  /** Files that were not overwritten, next to transcripts that were written under another name. */
  readonly kept: number
  /** Payments that were signed and whose outcome is not known yet, and what they may cost together. */
  readonly openPayments: number
  readonly openMaximum: bigint
  readonly failures: readonly FileFailure[]
  readonly elapsedMs: number
  readonly interrupted: boolean
  readonly stoppedBy?: StoppedBy
  /** Why it stopped: the error of the budget or the funds. */
  readonly stopError?: FareboxError
}
