import { execFileSync } from 'node:child_process'
import { createFarebox, FareboxError, walletFromPrivateKey } from '../../../client/farebox.ts'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { challenged, charged } from './scripted-service.ts'

/**
 * A process whose disk is full at chosen moments: the largest size of its files is limited, so that a write ends in the
 * middle of a line, as on a full disk. Prints what happened as JSON.
 */
const [home = '', privateKey = ''] = process.argv.slice(2)

function limitFiles(bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`])
}

// A real full disk sends no signal.
process.on('SIGXFSZ', () => undefined)

const signed = (key: string) => ({
  phase: 'signed' as const,
  key,
  maximum: '5034',
  deadline: new Date(Date.now() + 600_000).toISOString(),
  payment: 'p'.repeat(2000),
})

function codeOf(work: () => void): string {
  try {
    work()
    return 'written'
  } catch (error) {
    return error instanceof FareboxError ? `${error.code} ${error.money}` : String(error)
  }
}

/** Appends while the disk is full and after it has space again. */
function appendToFullDisk(): readonly string[] {
  const journal = openJournal(home)
  journal.append(signed('before'))
  limitFiles(3000)
  const outcomes = [codeOf(() => journal.append(signed('torn'))), codeOf(() => journal.append(signed('full')))]
  limitFiles('unlimited')
  return [...outcomes, codeOf(() => journal.append(signed('after')))]
}

/** Calls the service while the disk is full at one moment of the exchange. */
async function callWithFullDisk(fullAt: 'challenge' | 'answer') {
  let payments = 0
  const farebox = await createFarebox({
    wallet: walletFromPrivateKey(privateKey),
    baseUrl: 'http://localhost:4020',
    journal: home,
    verify: 'never',
    fetch: async (input, init) => {
      const request = new Request(input, init)
      const isPaid = request.headers.has('payment-signature')
      if (isPaid) payments += 1
      if (isPaid === (fullAt === 'answer')) limitFiles(1)
      const seen = { url: request.url, key: null, payment: null, body: '' }
      const answer = (isPaid ? charged('5034') : challenged())(seen)
      if (answer instanceof Error) throw answer
      return answer
    },
  })
  const outcome = await farebox.chat
    .create({ model: 'textmodel-2.5-flash', messages: [] }, { patienceMs: 0 })
    .then(({ payment }) => `recorded: ${payment.recorded}`)
    .catch((error: FareboxError) => `${error.code} ${error.money}`)
  limitFiles('unlimited')
  return { outcome, payments }
}

const appended = appendToFullDisk()
const atChallenge = await callWithFullDisk('challenge')
const atAnswer = await callWithFullDisk('answer')
console.log(JSON.stringify({ appended, atChallenge, atAnswer }))
