import { Command } from 'commander'

await new Command('farebox').description('Transcribes and calls AI models, paid per request in USDC.').parseAsync()
