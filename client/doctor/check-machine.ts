import { randomUUID } from 'node:crypto'
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { allowanceState, askAllowance } from '../allowance/read-allowance.ts'
import { readBalance } from '../allowance/read-balance.ts'
import { leastLeft } from '../budget/budget.ts'
import { formatUsdc } from '../budget/usdc.ts'
import type { FareboxContext } from '../context.ts'
import { unwritable } from '../journal/appended-file.ts'
import type { Attempt } from '../journal/attempt.ts'
import { openNode, readNode } from '../wallet/node-client.ts'
import { type DoctorCheck, fine, wrong } from './doctor-check.ts'

type JournalContext = Pick<FareboxContext, 'journal' | 'payer' | 'budget'>

/** What others than the owner may do. */
const OF_OTHERS = 0o077

type WalletContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'wallet' | 'rpcUrl'>

/** Checks that a node of the payment network answers, if one is configured. */
export async function checkNode({ rpcUrl, pins, baseUrl }: WalletContext): Promise<DoctorCheck> {
  if (rpcUrl === undefined) return fine('rpc', 'none is configured: permits and transfers on chain are left out')
  const { network = '' } = pins.termsOf(new URL(baseUrl).origin)
  const node = await openNode(rpcUrl)
  const block = await readNode(node, network, (client) => client.getBlockNumber())
  return fine('rpc', `${node.host} serves ${network}, block ${block}`)
}

/** Checks that there is USDC to pay with. */
export async function checkBalance(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const { usdc, network } = await readBalance(context, { signal, patienceMs: 0 })
  if (usdc > 0n) return fine('balance', `${formatUsdc(usdc)} USDC`)
  return wrong('balance', `${context.payer} has no USDC on ${network}.`, 'Send USDC to the wallet.')
}

/** Checks that Permit2 may take the charge of a call, lastingly or by a permit with each call. */
export async function checkAllowance(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const name = 'allowance'
  const { isApproved, allowance, storing } = allowanceState(await askAllowance(context, { signal, patienceMs: 0 }))
  if (isApproved) return fine(name, 'Permit2 is approved: calls run in parallel')
  const present = allowance === 0n ? 'none' : `only ${formatUsdc(allowance)} USDC`
  if (storing.code === 'permits_not_stored')
    return fine(name, `${present}: calls are paid one after the other, each with a permit; the service stores none`)
  const approve = storing.isAvailable
    ? ''
    : ` (no other is stored: ${storing.message ?? storing.code ?? 'no reason is known'})`
  return fine(
    name,
    `${present}: the first call brings a permit, for all later ones too unless a tool of farebox mcp makes it${approve}`,
  )
}

/** Checks that the service takes payments of the account: it judges the code of one that has code. */
export async function checkCode(context: WalletContext, signal?: AbortSignal): Promise<DoctorCheck> {
  const { payer } = context
  const { wallet, storing } = await askAllowance(context, { signal, patienceMs: 0 })
  // Services before wallets with code could pay do not say.
  const { has_code: hasCode, may_pay: mayPay } = wallet ?? {
    has_code: storing.reason === 'owner_has_code',
    may_pay: storing.reason !== 'owner_has_code',
  }
  if (!hasCode) return fine('wallet', `${payer}, an account without code`)
  if (mayPay) return fine('wallet', `${payer}, whose code the service knows`)
  return wrong(
    'wallet',
    `The service takes no payments of ${payer}. ${wallet?.message ?? 'The account has code.'}`,
    'Pay from an account without code, or from a wallet that the service knows.',
  )
}

/** Checks that the journal can be written, and that nobody else can read it. */
export function checkJournal({ journal }: JournalContext): DoctorCheck {
  const name = 'journal'
  const { directory } = journal
  if (directory === null) return fine(name, 'kept in memory: a call of a killed process is not continued')
  const probe = join(directory, 'journal', `.probe-${randomUUID()}`)
  try {
    writeFileSync(probe, 'x', { mode: 0o600, flush: true })
  } catch (error) {
    throw unwritable(directory, error)
  } finally {
    rmSync(probe, { force: true })
  }
  const open = openToOthers(directory)
  if (open.length === 0) return fine(name, directory)
  return wrong(name, `Other users may read ${open[0]}.`, `Run: chmod -R go= ${directory}`)
}

/** Windows has no such modes. */
function openToOthers(directory: string): readonly string[] {
  if (process.platform === 'win32') return []
  const journal = join(directory, 'journal')
  const paths = [journal, ...readdirSync(journal).map((file) => join(journal, file))]
  return paths.filter((path) => ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & OF_OTHERS) !== 0)
}

/** Looks for calls whose payment may still be charged although no process waits for it. */
export function checkOpenCalls({ journal, payer }: JournalContext): DoctorCheck {
  const name = 'open calls'
  journal.refresh()
  const left: Attempt[] = []
  for (const attempt of journal.attempts.all())
    if (attempt.payer === payer && attempt.open?.isSigned === true && !journal.isWrittenElsewhere(attempt.writer))
      left.push(attempt)
  if (left.length === 0) return fine(name, 'none')
  const sum = left.reduce((total, { open }) => total + (open?.maximum ?? 0n), 0n)
  const calls = left.length === 1 ? '1 call was' : `${left.length} calls were`
  return wrong(
    name,
    `${calls} signed without a known outcome; ${formatUsdc(sum)} USDC count as spent until it is.`,
    'Repeat what was interrupted, such as the same transcribe command: its calls keep their keys and are charged once.',
  )
}

/** Looks whether the budget of the day is used up. */
export function checkBudget({ budget }: JournalContext): DoctorCheck {
  const name = 'budget'
  const left = leastLeft(budget.left())
  if (left === null) return fine(name, 'none is set')
  if (left > 0n) return fine(name, `${formatUsdc(left)} USDC left`)
  return wrong(name, 'The budget is used up.', 'Raise it, or continue after midnight UTC.')
}
