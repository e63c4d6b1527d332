import type { ServerDescription } from './server-description.ts'

/** Returns `SKILL.md`, which teaches an agent when and how to use the server. */
export function skill({ packageName, occasion, license, instructions, tools, settings }: ServerDescription): string {
  const required = settings.filter(({ isRequired }) => isRequired).map(({ variable }) => `\`${variable}\``)
  return `---
name: ${packageName}
description: ${JSON.stringify(occasion)}
license: ${license}
---

# ${packageName}

${instructions.replaceAll('\n', '\n\n')}

## Tools

| tool | pays | does |
| ---- | ---- | ---- |
${tools.map(({ name, annotations, description }) => `| \`${name}\` | ${annotations.readOnlyHint === true ? 'no' : 'yes'} | ${description} |`).join('\n')}

## A paid call

1. Ask \`quote\` for the price when the person wants to know it, or when the call is large.
2. Call the tool with a \`request_id\` of your own: a name for this piece of work, such as \`summary-of-minutes-1\`.
3. If the connection is lost or the answer says that it is not known whether the call was charged, repeat it unchanged.
4. Name the charge and the receipt id to the person.

## Errors

\`structuredContent.error\` of a failed call has \`code\`, \`message\`, \`advice\` and \`money\`: \`none\` (nothing was charged),
\`unknown\` (repeat the call unchanged to find out) or \`charged\` (repeat it unchanged, it is not charged again).

| \`code\` | do |
| ------ | -- |
| \`budget_exceeded\`, \`price_above_limit\` | ask the person; they run \`farebox limits\` in a terminal |
| \`confirmation_required\`, \`confirmation_declined\` | show the person the message, and do not repeat the call by yourself |
| \`request_id_conflict\` | use another \`request_id\` for another call |
| \`path_not_allowed\` | the person starts the server with the folder |
| \`no_wallet\`, \`no_service\` | the person sets ${required.join(' and ')} where the server is started |
| \`insufficient_funds\`, \`not_approved\` | the person adds USDC, or runs \`farebox approve\` |

## Start the server

\`farebox mcp FOLDER…\`, with ${required.join(' and ')} in its environment. The README of the package has the lines for the usual
clients. \`farebox doctor\` finds what is missing.
`
}
