import { defineOperations } from './operation.js'

const errors = ['SESSION_NOT_FOUND'] as const

export const secretOperations = defineOperations({
  listSecrets: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/secrets',
    query: ['scope'],
    capability: 'secrets',
    errors,
  },
  putSecret: {
    method: 'PUT',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    capability: 'secrets',
    event: 'v1.SecretsService.PutSecret',
    errors: [...errors, 'NO_MASTER_KEY', 'QUOTA'],
  },
  getSecret: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    capability: 'secrets',
    errors: [...errors, 'NO_MASTER_KEY', 'SECRET_NOT_FOUND'],
  },
  deleteSecret: {
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/secrets/{secretName}',
    query: ['scope'],
    capability: 'secrets',
    event: 'v1.SecretsService.DeleteSecret',
    errors: [...errors, 'SECRET_NOT_FOUND'],
  },
})
