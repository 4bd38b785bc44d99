/* SPDX-License-Identifier: Apache-2.0 */
/* The printed header compiles without a warning as C11 and C++17, with every installed compiler,
 * and the struct has exactly the schema's layout. */
#include <sys/wait.h>
#include <unistd.h>

#include "schemas.h"

static const char *const compilers[][2] = {
	{ "gcc", "-std=c11 -x c" },         { "clang", "-std=c11 -x c" },
	{ "gcc", "-std=gnu17 -x c" },       { "g++", "-std=c++17 -x c++" },
	{ "clang++", "-std=c++17 -x c++" },
};

#define WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

static const char *const own =
	"name: torture\n"
	"version: 7\n"
	"doc: 'Ends */ the comment /* and begins another; \\ ?\?/ // %s \"quoted\" '\n"
	"fields:\n"
	"- {name: torture, type: u8, doc: Called like its schema.}\n"
	"- {name: x, type: 'char[3]', doc: ends in a backslash \\}\n"
	"- {name: codes, type: 'char[2][4]', doc: '*/ int evil; /*'}\n"
	"- {name: pad12, type: 'u32', doc: Called almost like padding.}\n"
	"- {name: ratio, type: 'f64[2]', doc: a}\n"
	"- {name: prize, type: 'decimal64(9)[3]', doc: a}\n"
	"- {name: fields, type: time}\n"
	"- {name: seq, type: u64, role: source_sequence}\n"
	"- {name: a8, type: i8, doc: a}\n"
	"- {type: 'pad[7]'}\n";

/* Each type with nulls, also in arrays and in a group. Two names end like the macros of a field. */
static const char *const nulls =
	"name: nulls\n"
	"version: 1\n"
	"fields:\n"
	"- {name: a, type: i64, optional: true, doc: May be unknown.}\n"
	"- {name: b, type: i32, optional: true}\n"
	"- {name: c, type: i16, optional: true}\n"
	"- {name: d, type: 'i8[2]', optional: true}\n"
	"- {name: e, type: u64, optional: true}\n"
	"- {name: f, type: u32, optional: true}\n"
	"- {name: g, type: u16, optional: true}\n"
	"- {name: h, type: 'u8[2]', optional: true}\n"
	"- {name: i, type: 'f64[2]', optional: true}\n"
	"- {name: j, type: time, optional: true}\n"
	"- {name: k, type: 'decimal64(8)', optional: true}\n"
	"- {name: l, type: 'char[3][2]', optional: true}\n"
	"- {name: m, type: 'char[1]', optional: true}\n"
	"- {name: m_is, type: u8, optional: true}\n"
	"- {name: n, type: 'group[2]', fields: [ {name: o, type: i64, optional: true}, {name: p,\n"
	"   type: 'char[8]', optional: true}, {name: m_null, type: u64, optional: true} ]}\n";

static const char *const nulls_program =
	"#include \"schema.h\"\n#include <stdio.h>\n"
	"static void print(const struct nulls *x)\n{\n"
	"printf(\"%d%d%d%d\", NULLS_A_ISNULL(x->a), NULLS_B_ISNULL(x->b), NULLS_C_ISNULL(x->c),\n"
	"NULLS_D_ISNULL(x->d[1]));\n"
	"printf(\"%d%d%d%d\", NULLS_E_ISNULL(x->e), NULLS_F_ISNULL(x->f), NULLS_G_ISNULL(x->g),\n"
	"NULLS_H_ISNULL(x->h[1]));\n"
	"printf(\"%d%d%d%d\", NULLS_I_ISNULL(x->i[1]), NULLS_J_ISNULL(x->j), "
	"NULLS_K_ISNULL(x->k),\n"
	"NULLS_L_ISNULL(x->l[1]));\n"
	"printf(\"%d%d\", NULLS_M_ISNULL(x->m), NULLS_M_IS_ISNULL(x->m_is));\n"
	"printf(\"%d%d%d\", NULLS_N_O_ISNULL(x->n[1].o), NULLS_N_P_ISNULL(x->n[1].p),\n"
	"NULLS_N_M_NULL_ISNULL(x->n[1].m_null));\n}\n"
	"int main(void)\n{\n"
	"static const struct nulls null = { NULLS_A_NULL, NULLS_B_NULL, NULLS_C_NULL,\n"
	"{ 0, NULLS_D_NULL }, NULLS_E_NULL, NULLS_F_NULL, NULLS_G_NULL, { 0, NULLS_H_NULL },\n"
	"{ 0, NULLS_I_NULL }, NULLS_J_NULL, NULLS_K_NULL, { \"a\", NULLS_L_NULL }, NULLS_M_NULL,\n"
	"NULLS_M_IS_NULL, { { 0, \"\", 0 }, { NULLS_N_O_NULL, NULLS_N_P_NULL,\n"
	"NULLS_N_M_NULL_NULL } } };\n"
	"struct nulls zero;\n"
	"memset(&zero, 0, sizeof(zero));\n"
	"print(&null);\nputchar(' ');\nprint(&zero);\nputchar('\\n');\nreturn 0;\n}\n";

static const char *upper(const char *name, char *text)
{
	for (size_t i = 0; i <= strlen(name); i++)
		text[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
	return text;
}

/* Prints the digits of each decimal, those of a group's members among them. */
static void write_scales(FILE *file, const char *macro, const struct tb_field *fields, size_t count)
{
	char words[160], name[80];

	for (size_t i = 0; i < count; i++) {
		if (fields[i].type == TB_TYPE_PAD)
			continue;
		snprintf(words, sizeof(words), "%s_%s", macro, upper(fields[i].name, name));
		if (fields[i].type == TB_TYPE_DECIMAL64)
			fprintf(file, "\tprintf(\"%%d\\n\", %s_SCALE);\n", words);
		write_scales(file, words, fields[i].members, fields[i].member_count);
	}
}

static void expect_scales(FILE *file, const struct tb_field *fields, size_t count)
{
	int scale;

	for (size_t i = 0; i < count; i++) {
		if (fields[i].type == TB_TYPE_DECIMAL64) {
			cr_assert_eq(fscanf(file, "%d", &scale), 1, "%s", fields[i].name);
			cr_expect_eq(scale, fields[i].scale, "%s", fields[i].name);
		}
		expect_scales(file, fields[i].members, fields[i].member_count);
	}
}

/* A program that prints the compiler's view of the table: name, offset and bytes of each field. */
static void write_program(FILE *file, const struct tb_schema *schema, const char *tag,
			  const char *macro)
{
	size_t count;
	const struct tb_field *fields = tb_schema_fields(schema, &count);

	fprintf(file,
		"#include \"schema.h\"\n#include \"schema.h\"\n#include <inttypes.h>\n"
		"#include <stdio.h>\n"
		"#define P(s, n) printf(\"%%s %%zu %%zu\\n\", #n, offsetof(struct s, n), "
		"sizeof(((struct s *)0)->n));\n"
		"#define X(n, t, s, o, b, c) P(%s, n)\n"
		"int main(void)\n{\n\tprintf(\"%%\" PRIx64 \" %%u %%zu %%s\\n\", %s_FINGERPRINT, "
		"(unsigned)%s_VERSION, sizeof(struct %s), %s_NAME);\n\t%s_FIELDS(X)\n",
		tag, macro, macro, tag, macro, macro);
	for (size_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < fields[i].member_count; k++)
			if (fields[i].members[k].type != TB_TYPE_PAD)
				fprintf(file, "\tP(%s_%s, %s)\n", tag, fields[i].name,
					fields[i].members[k].name);
	write_scales(file, macro, fields, count);
	fputs("\treturn 0;\n}\n", file);
}

static void expect_line(FILE *file, const struct tb_field *field)
{
	char name[64] = "";
	size_t offset = 0, bytes = 0;

	cr_assert_eq(fscanf(file, "%63s %zu %zu", name, &offset, &bytes), 3, "%s", field->name);
	cr_expect_str_eq(name, field->name);
	cr_expect_eq(offset, field->offset, "%s", name);
	cr_expect_eq(bytes, (size_t)field->bytes * field->count, "%s", name);
}

static void expect_output(FILE *file, const struct tb_schema *schema)
{
	size_t count, bytes;
	const struct tb_field *fields = tb_schema_fields(schema, &count);
	uint64_t fingerprint;
	unsigned version;
	char name[64];

	cr_assert_eq(fscanf(file, "%" SCNx64 " %u %zu %63s", &fingerprint, &version, &bytes, name),
		     4);
	cr_expect_eq(fingerprint, tb_schema_fingerprint(schema));
	cr_expect_eq(version, tb_schema_version(schema));
	cr_expect_eq(bytes, tb_schema_bytes(schema));
	cr_expect_str_eq(name, tb_schema_name(schema));
	for (size_t i = 0; i < count; i++)
		if (fields[i].type != TB_TYPE_PAD)
			expect_line(file, &fields[i]);
	for (size_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < fields[i].member_count; k++)
			if (fields[i].members[k].type != TB_TYPE_PAD)
				expect_line(file, &fields[i].members[k]);
	expect_scales(file, fields, count);
}

static FILE *create(const char *folder, const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file, "%s", path);
	return file;
}

/* Makes the folder with schema.h, and opens program.c in it. */
static FILE *create_program(const struct tb_schema *schema, char *folder)
{
	char *header = tb_schema_header(schema);
	FILE *file;

	cr_assert_not_null(header, "%s", tb_error());
	cr_assert_not_null(mkdtemp(folder));
	file = create(folder, "schema.h");
	fputs(header, file);
	fclose(file);
	free(header);
	return create(folder, "program.c");
}

/* Compiles and runs program.c, and removes the folder. Returns the program's output. */
static FILE *run_program(const char *folder, size_t compiler)
{
	char command[1024];
	FILE *file;

	snprintf(command, sizeof(command),
		 "cd %s && %s %s " WARNINGS " program.c -o program && ./program; rm -r %s", folder,
		 compilers[compiler][0], compilers[compiler][1], folder);
	file = popen(command, "r");
	cr_assert_not_null(file);
	return file;
}

static void expect_compiles(const struct tb_schema *schema, const char *prefix, size_t compiler)
{
	char folder[] = "/tmp/tickbus-header-XXXXXX", tag[80], macro[80];
	FILE *file = create_program(schema, folder);

	snprintf(tag, sizeof(tag), "%s%s", prefix, tb_schema_name(schema));
	upper(tag, macro);
	write_program(file, schema, tag, macro);
	fclose(file);
	file = run_program(folder, compiler);
	expect_output(file, schema);
	pclose(file);
}

/* Null elements, then elements of zero bytes, which only in text are null. */
static void expect_nulls(size_t compiler)
{
	char folder[] = "/tmp/tickbus-header-XXXXXX", found[80] = "";
	struct tb_schema *schema = parse(nulls);
	FILE *file = create_program(schema, folder);

	fputs(nulls_program, file);
	fclose(file);
	tb_schema_free(schema);
	file = run_program(folder, compiler);
	cr_expect_not_null(fgets(found, sizeof(found), file));
	cr_expect_str_eq(found, "11111111111111111 00000000000110010\n", "%s", found);
	pclose(file);
}

static void expect_all(size_t compiler)
{
	const char *const *names = tb_schema_builtins();
	struct tb_schema *schema = parse(own);
	char command[64];

	snprintf(command, sizeof(command), "%s --version >/dev/null 2>&1", compilers[compiler][0]);
	if (system(command) != 0) {
		tb_schema_free(schema);
		cr_skip("%s is not installed", compilers[compiler][0]);
	}
	expect_compiles(schema, "", compiler);
	tb_schema_free(schema);
	expect_nulls(compiler);
	for (; *names; names++) {
		cr_assert_eq(tb_schema_load(&schema, *names), 0, "%s", tb_error());
		expect_compiles(schema, "tb_", compiler);
		tb_schema_free(schema);
	}
}

Test(header, field_without_doc_has_its_type_alone_as_comment)
{
	struct tb_schema *schema = parse(own);
	char *header = tb_schema_header(schema);

	cr_assert_not_null(header, "%s", tb_error());
	cr_expect(strstr(header, "\t/* time */\n\tuint64_t fields;\n"), "%s", header);
	cr_expect(strstr(header, "\t/* u64, source_sequence */\n\tuint64_t seq;\n"), "%s", header);
	cr_expect(strstr(header, "\t/* a (i8) */\n\tint8_t a8;\n"), "%s", header);
	free(header);
	tb_schema_free(schema);
}

Test(header, optional_field_has_its_null_and_its_test)
{
	struct tb_schema *schema = parse(nulls);
	char *header = tb_schema_header(schema);

	cr_assert_not_null(header, "%s", tb_error());
	cr_expect(strstr(header, "#define NULLS_A_NULL INT64_MIN\n"
				 "#define NULLS_A_ISNULL(value) ((value) == INT64_MIN)\n"),
		  "%s", header);
	cr_expect(strstr(header, "\t/* May be unknown. (i64, optional) */\n\tint64_t a;\n"), "%s",
		  header);
	cr_expect(strstr(header, "\t/* i32, optional */\n\tint32_t b;\n"), "%s", header);
	free(header);
	tb_schema_free(schema);
	schema = brief("t", 1, "x u8");
	header = tb_schema_header(schema);
	cr_assert_not_null(header, "%s", tb_error());
	cr_expect_null(strstr(header, "NULL"), "%s", header);
	free(header);
	tb_schema_free(schema);
}

Test(header, compiles_with_gcc_as_c11)
{
	expect_all(0);
}

Test(header, compiles_with_clang_as_c11)
{
	expect_all(1);
}

Test(header, compiles_with_gcc_as_gnu17)
{
	expect_all(2);
}

Test(header, compiles_with_gcc_as_cpp17)
{
	expect_all(3);
}

Test(header, compiles_with_clang_as_cpp17)
{
	expect_all(4);
}

Test(header, user_schema_with_builtin_name_has_no_tb_prefix)
{
	struct tb_schema *schema = brief("quote", 1, "x u8");
	char *header = tb_schema_header(schema);

	cr_assert_not_null(header);
	cr_expect_not_null(strstr(header, "struct quote {"));
	cr_expect_null(strstr(header, "tb_quote"));
	free(header);
	tb_schema_free(schema);
}
