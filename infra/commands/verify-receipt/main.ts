import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { checkCharge, checkMaximum } from '#receipts/check-charge.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { printProblem } from '../../terminal.ts'
import { type Check, judged, NothingToVerify, printCheck, skipped } from '../check.ts'
import { namingWaits } from '../command-line.ts'
import { CHAIN_NOT_CHECKED, checkChain } from './check-chain.ts'
import { checkCatalogPrices, checkPrices } from './check-prices.ts'
import { checkSignature } from './check-signature.ts'
import { messageOf } from './fetch-json.ts'
import { fetchReceipt, type GivenReceipt, readReceiptFile } from './read-receipt.ts'

const HELP = `Usage: npm run verify-receipt -- --url <service> --id <receipt> --token <token> [--rpc <node>] …
       npm run verify-receipt -- --file <receipt.json> [--rpc <node>] …

Checks a receipt without trusting the service: the signature, the charge (recomputed from usage and unit prices), the
authorized maximum, and the transfer on chain.

  --url <service>    the service that issued the receipt: fetches the receipt, its signing key and its catalog
  --id, --token      X-Receipt-ID and X-Receipt-Token of the paid response
  --file <path>      a saved response of GET /v1/receipts/{id}
  --rpc <node>       JSON-RPC URL of a node on the receipt's network; without it the transfer is not checked
  --key <key>        the signing key: the x of an Ed25519 JWK, or a file with a JWK or a key set (default: fetched);
                     write --key=<key> when it begins with a dash
  --result <path>    file with the exact bytes of the paid response's body, compared with the receipt's digest
  --pricing <url>    the price list to compare with (default with --url: the catalog of the receipt)
  --json             print one JSON object
  --help             show this text

Exit code: 0 when no check failed, 1 when a check failed or could not be completed, 2 when there is nothing to verify
(wrong arguments, no such receipt, not a receipt).`

const OPTIONS = {
  url: { type: 'string' },
  id: { type: 'string' },
  token: { type: 'string' },
  file: { type: 'string' },
  rpc: { type: 'string' },
  key: { type: 'string' },
  result: { type: 'string' },
  pricing: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const

type Options = ReturnType<typeof readOptions>

function readOptions(commandLine: readonly string[]) {
  try {
    const { values } = parseArgs({ options: OPTIONS, args: [...commandLine] })
    for (const name of ['url', 'rpc', 'pricing'] as const)
      if (values[name] !== undefined && !/^https?:\/\/[^/]/.test(values[name]))
        throw new Error(`--${name} must be a URL that begins with http:// or https://`)
    return values
  } catch (error) {
    throw new NothingToVerify(`${messageOf(error)}\n\n${HELP}`)
  }
}

/** Runs every check that the options allow and reports each immediately. Throws `NothingToVerify`. */
export async function verifyReceipt(options: Options, report: (check: Check) => void): Promise<readonly Check[]> {
  const given = await readGiven(options)
  const { receipt } = given
  const checks: Check[] = []
  const add = (...completed: readonly Check[]) => {
    for (const check of completed) {
      checks.push(check)
      report(check)
    }
  }
  add(await checkSignature(given, { key: options.key, baseUrl: options.url }))
  add(...checkCharge(receipt), checkMaximum(receipt))
  if (options.pricing !== undefined) add(await checkPrices(receipt, options.pricing, true))
  else if (options.url !== undefined) add(await checkCatalogPrices(receipt, options.url))
  add(...(options.rpc === undefined ? [CHAIN_NOT_CHECKED] : await checkChain(receipt, options.rpc)))
  add(await checkResultDigest(receipt, options.result))
  return checks
}

async function readGiven({ url, id, token, file }: Options) {
  if (file !== undefined && id === undefined && token === undefined) return await readReceiptFile(file)
  if (file === undefined && url !== undefined && id !== undefined && token !== undefined)
    return await fetchReceipt(url, id, token)
  throw new NothingToVerify(`Pass either --file, or --url with --id and --token.\n\n${HELP}`)
}

async function checkResultDigest({ result_digest }: GivenReceipt, path: string | undefined): Promise<Check> {
  if (path === undefined) return skipped('result', 'not compared; pass the response body with --result')
  const bytes = await readFile(path).catch((error: unknown) => {
    throw new NothingToVerify(`--result ${path} cannot be read (${messageOf(error)}).`)
  })
  const isSame = sha256Hex(bytes) === result_digest
  return judged('result', isSame ? [] : [`the SHA-256 of ${path} is not ${result_digest}`], 'matches the digest')
}

/** Runs the command and returns its exit code. */
export async function main(commandLine: readonly string[]): Promise<number> {
  // Read before the options are parsed: an error in them is reported as JSON, too.
  const isJson = commandLine.includes('--json')
  try {
    const options = readOptions(commandLine)
    if (options.help) {
      console.log(HELP)
      return 0
    }
    const checks = await verifyReceipt(options, isJson ? () => undefined : (check) => printCheck(check))
    const isValid = checks.every(({ outcome }) => outcome !== 'failed')
    if (isJson) console.log(JSON.stringify({ outcome: isValid ? 'passed' : 'failed', checks }, null, 2))
    else console.log(isValid ? '\nThe receipt is valid.' : '\nThe receipt is not valid.')
    return isValid ? 0 : 1
  } catch (error) {
    if (!(error instanceof NothingToVerify)) throw error
    if (isJson) console.log(JSON.stringify({ outcome: 'nothing_to_verify', message: error.message }, null, 2))
    else printProblem(error.message)
    return 2
  }
}

if (import.meta.main) process.exitCode = await namingWaits(() => main(process.argv.slice(2)))
