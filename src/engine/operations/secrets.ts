import { defineOperations } from './operation.js'

const errors = ['SESSION_NOT_FOUND'] as const

export const secretOperations = defineOperations({
  listSecrets: {
    tag: 'Secrets',
    summary: 'List secrets',
    description: 'Names in byte order, without values.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/secrets',
    query: ['scope'],
    implementedBy: 'session.secrets.list',
    capabilities: ['secrets'],
    errors,
  },
  putSecret: {
    tag: 'Secrets',
    summary: 'Set a secret',
    description:
      'Creates or replaces a secret. Values are encrypted wherever they are kept, and never appear in ' +
      'files, forks, commits, events, errors or logs.',
    method: 'PUT',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    implementedBy: 'session.secrets.put',
    capabilities: ['secrets'],
    event: 'v1.SecretsService.PutSecret',
    errors: [...errors, 'NO_MASTER_KEY', 'QUOTA'],
  },
  getSecret: {
    tag: 'Secrets',
    summary: 'Get a secret',
    description: 'The value of one secret.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    implementedBy: 'session.secrets.get',
    capabilities: ['secrets'],
    errors: [...errors, 'NO_MASTER_KEY', 'SECRET_NOT_FOUND'],
  },
  deleteSecret: {
    tag: 'Secrets',
    summary: 'Delete a secret',
    description: 'Returns the name and scope of the deleted secret.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    query: ['scope'],
    implementedBy: 'session.secrets.delete',
    capabilities: ['secrets'],
    event: 'v1.SecretsService.DeleteSecret',
    errors: [...errors, 'SECRET_NOT_FOUND'],
  },
})
