import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * Runs one campaign: `npm run campaign -- kill-matrix --trials 50`. A campaign is a file of this folder that exports
 * `run(args): Promise<number>`, the exit code.
 */
interface Campaign {
  readonly run?: (args: readonly string[]) => Promise<number>
}

const names = readdirSync(fileURLToPath(new URL('./', import.meta.url)))
  .filter((name) => name.endsWith('.ts') && name !== 'main.ts')
  .map((name) => name.slice(0, -'.ts'.length))

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name !== undefined && names.includes(name)) {
    const campaign = (await import(new URL(`./${name}.ts`, import.meta.url).href)) as Campaign
    if (campaign.run) return await campaign.run(args)
  }
  console.log('Usage: npm run campaign -- <kill-matrix | nemesis | mutations | …> [--help]')
  return name === '--help' ? 0 : 2
}

process.exitCode = await main(process.argv.slice(2))
