/* Stands in for redis-cell: a module that has CL.THROTTLE already. */

typedef struct Context Context;
typedef int (*Command)(Context *, void **, int);

static int (*reply)(Context *, const char *);

static int throttle(Context *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    return reply(ctx, "the other one");
}

int RedisModule_OnLoad(Context *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    /* The first word of a loading module's context finds all the rest by name. */
    int (*get_api)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    void (*set_attributes)(Context *, const char *, int, int);
    int (*create_command)(Context *, const char *, Command, const char *, int, int, int);
    get_api("RedisModule_SetModuleAttribs", &set_attributes);
    get_api("RedisModule_CreateCommand", &create_command);
    get_api("RedisModule_ReplyWithSimpleString", &reply);
    set_attributes(ctx, "other", 1, 1);
    return create_command(ctx, "cl.throttle", throttle, "readonly", 1, 1, 1);
}
