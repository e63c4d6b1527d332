/** What a batch has left behind, as seen from outside of the client. */
export interface BatchEvidence {
  readonly clips: readonly { readonly name: string; readonly script: string }[]
  /** The price of each clip in atomic units, as the service quotes it. */
  readonly priceAtomic: bigint
  /** The transcripts by the name of the clip. */
  readonly transcripts: ReadonlyMap<string, string>
  /** Further files in the output folder, such as incomplete ones. */
  readonly strayFiles: readonly string[]
  /** USDC transfers from the payer to the service, in atomic units. */
  readonly transfers: readonly bigint[]
  /** By how much the payer's balance has decreased. */
  readonly spentAtomic: bigint
  /** The receipts in the service's ledger for this payer, with what was heard in the recording that each paid for. */
  readonly receipts: readonly { readonly receiptId: string; readonly heard: string | null }[]
  /** What the client's own journal counts as charged; `null` if it was deleted. */
  readonly journaledAtomic: bigint | null
  /** Exit code of the last run. */
  readonly exitCode: number | null
}

/**
 * Returns what contradicts "each clip is transcribed, and paid for exactly once". Pure: the same evidence always results in
 * the same answer.
 */
export function checkBatch(evidence: BatchEvidence): readonly string[] {
  return [...checkTranscripts(evidence), ...checkMoney(evidence), ...checkReceipts(evidence)]
}

function checkTranscripts({ clips, transcripts, strayFiles, exitCode }: BatchEvidence): readonly string[] {
  const ended = exitCode === 0 ? [] : [`the last run ended with exit code ${exitCode}`]
  const wrong = clips.flatMap(({ name, script }) => {
    const text = transcripts.get(name)
    if (text === undefined) return [`${name} has no transcript`]
    return oneLine(text) === script ? [] : [`the transcript of ${name} is ${JSON.stringify(text.slice(0, 200))}`]
  })
  return [...ended, ...wrong, ...strayFiles.map((file) => `the file ${file} was left in the output folder`)]
}

function checkMoney({ clips, priceAtomic, transfers, spentAtomic, journaledAtomic }: BatchEvidence): readonly string[] {
  const due = priceAtomic * BigInt(clips.length)
  const charged = transfers.reduce((sum, amount) => sum + amount, 0n)
  const others = transfers.filter((amount) => amount !== priceAtomic)
  return [
    ...(charged === due ? [] : [`${charged} was charged on chain for ${clips.length} × ${priceAtomic} = ${due}`]),
    ...(others.length === 0 ? [] : [`${others.length} transfers are not the price, such as ${others[0]}`]),
    ...(spentAtomic === charged ? [] : [`the payer has ${spentAtomic} less, but transferred ${charged}`]),
    ...(journaledAtomic === null || journaledAtomic === charged
      ? []
      : [`the journal counts ${journaledAtomic}, but ${charged} was charged on chain`]),
  ]
}

function checkReceipts({ clips, receipts }: BatchEvidence): readonly string[] {
  const clipOf = new Map(clips.map(({ script, name }) => [script, name]))
  const counts = new Map<string, number>(clips.map(({ name }) => [name, 0]))
  const foreign: string[] = []
  for (const { receiptId, heard } of receipts) {
    const name = clipOf.get(heard ?? '')
    if (name === undefined) foreign.push(`the receipt ${receiptId} is for none of the clips`)
    else counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const wrong = [...counts].filter(([, count]) => count !== 1).map(([name, count]) => `${name} has ${count} receipts`)
  return [...foreign, ...wrong]
}

function oneLine(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ')
}
