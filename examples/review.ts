// A change goes through a review: the agent asks, another principal comments and decides, and then it is committed.
import { openEngine } from 'forkspace'

await using engine = await openEngine({ approvals: { selfApproval: false } })
const agent = engine.as({ tenant: 'acme', principal: 'agent' })
const reviewer = engine.as({ tenant: 'acme', principal: 'ann' })

const project = await agent.sessions.create({ files: { '/config.json': '{ "port": 80 }\n' } })
const change = await project.fork()
await change.files.write({ path: '/config.json', content: '{ "port": 8080 }\n' })
const { summary, changedFiles } = await change.generateCommitSummary()
const { approvalId } = await change.approvals.request({
  reason: 'COMMIT',
  details: { summary, changedFiles },
})
console.log(`asked: ${summary}`)

const reviewed = await reviewer.sessions.open(change.id)
await reviewed.annotations.add({
  filePath: '/config.json',
  lineNumber: 1,
  expectedContentHash: await reviewed.files.contentHash('/config.json'),
  comment: 'Matches the load balancer.',
})
await reviewed.approvals.grant({ approvalId })

const { annotations } = await change.annotations.list({ filePath: '/config.json' })
for (const { reviewerId, lineNumber, comment } of annotations)
  console.log(`${reviewerId} on line ${lineNumber}: ${comment}`)
const { approvals } = await change.approvals.list()
console.log(`approvals: ${approvals.map(({ status }) => status).join(', ')}`)
const { commitId } = await change.commit({
  message: summary,
  author: { name: 'Agent', email: 'agent@acme.example' },
})
const { commits } = await change.commits.list()
console.log(`committed: ${commits[0]?.message.trim()}, ${commits[0]?.commitId === commitId}`)

// Prints:
// asked: Change /config.json
// ann on line 1: Matches the load balancer.
// approvals: APPROVAL_STATUS_GRANTED
// committed: Change /config.json, true
