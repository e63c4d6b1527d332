import { execFileSync } from 'node:child_process'
import { readKeySecret } from '../../../client/wallet/key-secret.ts'
import { walletFromAccount } from '../../../client/wallet/wallet-from-private-key.ts'

/** Reads the secret of a wallet whose signatures differ while no file can be written, and prints the error's code. */
const [home = ''] = process.argv.slice(2)
let signatures = 0
const sign = () => {
  signatures += 1
  return Promise.resolve(`0x0${signatures}` as const)
}
const wallet = walletFromAccount({ address: `0x${'1'.repeat(40)}`, signMessage: sign, signTypedData: sign })
// A real full disk sends no signal.
process.on('SIGXFSZ', () => undefined)
execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=0:'])
const code = await readKeySecret(wallet, home).then(
  ({ source }) => source,
  (error: NodeJS.ErrnoException) => error.code,
)
execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=unlimited:'])
console.log(code)
