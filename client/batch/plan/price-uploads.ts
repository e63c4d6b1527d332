import { deriveCallKey } from '../../payment/call-key.ts'
import type { ResolvedRequest } from './batch-request.ts'
import type { MeasuredUpload } from './plan-cache.ts'
import type { TranscriptionTerms } from './pricing.ts'

/** A call that is paid for. */
export interface UploadWork {
  readonly upload: MeasuredUpload
  /** The idempotency key. Uploads with equal keys are one call. */
  readonly key: string
  readonly price: bigint
}

interface UploadPricing {
  readonly secret: Uint8Array
  readonly request: ResolvedRequest
  readonly terms: TranscriptionTerms
  /** What was charged under each key, as far as the journal knows. */
  readonly charged: ReadonlyMap<string, bigint>
}

/** Names and prices the calls of a batch. A call that two files need is counted for the first one. */
export class UploadPricer {
  readonly #pricing: UploadPricing
  readonly #counted = new Set<string>()

  constructor(pricing: UploadPricing) {
    this.#pricing = pricing
  }

  price(uploads: readonly MeasuredUpload[], occurrence: number) {
    let price = 0n
    let alreadyPaid = 0n
    const priced = uploads.map((upload): UploadWork => {
      const work = this.#work(upload, occurrence)
      if (!this.#counted.has(work.key)) {
        this.#counted.add(work.key)
        price += work.price
        // The price is an upper bound, and a call that was charged is not charged again.
        if (this.#pricing.charged.has(work.key)) alreadyPaid += work.price
      }
      return work
    })
    return { uploads: priced, price, alreadyPaid }
  }

  /** Returns what uploads of these lengths cost at most. Which calls they are is known only when they are prepared. */
  estimate(uploads: readonly { readonly durationMs: number }[]): bigint {
    return uploads.reduce((sum, { durationMs }) => sum + this.#pricing.terms.priceOf(durationMs), 0n)
  }

  #work(upload: MeasuredUpload, occurrence: number): UploadWork {
    const { secret, request, terms } = this.#pricing
    const content = { contentSha256: upload.sha256, options: request.fields, occurrence }
    const key = deriveCallKey(secret, { operation: 'createTranscription', ...content })
    return { upload, key, price: terms.priceOf(upload.durationMs) }
  }
}
