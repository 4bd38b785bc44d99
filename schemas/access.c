/* SPDX-License-Identifier: Apache-2.0 */
/* Getters of a schema. */
#include "schemas/schema.h"

#include "bus/error.h"

TB_API const char *tb_schema_name(const struct tb_schema *schema)
{
	if (!schema) {
		error_null("schema");
		return NULL;
	}
	return schema->name;
}

TB_API uint32_t tb_schema_version(const struct tb_schema *schema)
{
	if (!schema) {
		error_null("schema");
		return 0;
	}
	return schema->version;
}

TB_API uint64_t tb_schema_fingerprint(const struct tb_schema *schema)
{
	if (!schema) {
		error_null("schema");
		return 0;
	}
	return schema->fingerprint;
}

TB_API size_t tb_schema_bytes(const struct tb_schema *schema)
{
	if (!schema) {
		error_null("schema");
		return 0;
	}
	return schema->bytes;
}

TB_API const char *tb_schema_text(const struct tb_schema *schema, size_t *length)
{
	if (!schema) {
		error_null("schema");
		*length = 0;
		return NULL;
	}
	*length = schema->text_length;
	return schema->text;
}

TB_API const struct tb_field *tb_schema_fields(const struct tb_schema *schema, size_t *count)
{
	if (!schema) {
		error_null("schema");
		*count = 0;
		return NULL;
	}
	*count = schema->field_count;
	return schema->fields;
}
