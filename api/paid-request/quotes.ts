import { bindTo } from '#shared/runtime/bind-to.ts'
import { bindQuote, challengeToPay, findQuotedCatalog, type QuoteContext, quoteOffered } from './quote/bind-quote.ts'
import { type ChallengeContext, renderChallenge } from './quote/challenge.ts'
import { renderProbeChallenge } from './quote/probe-challenge.ts'

/** Prices requests, binds their keys, and renders what is to be signed. */
export type Quotes = ReturnType<typeof createQuotes>

export type QuotesContext = QuoteContext & ChallengeContext

export function createQuotes(context: QuotesContext) {
  return bindTo(context, {
    findQuotedCatalog,
    quoteOffered,
    bindQuote,
    challengeToPay,
    renderChallenge,
    renderProbeChallenge,
  })
}
