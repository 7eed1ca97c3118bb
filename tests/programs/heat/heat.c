/* Heat that spreads through a plate, computed by many ranks.
 *
 * The plate is a picture: how bright a pixel is, is how warm that spot is at
 * the start. White spots are heaters and are always hot, the outermost ones (the rim) keep their
 * warmth too. Every other spot becomes the mean of its four neighbours less what the air takes.
 * Steps end when no spot changes by more than the tolerance.
 *
 * The plate is cut into one rectangle for each rank. In every step a rank
 * sends its outermost rows and columns to its four neighbours, computes the
 * inside while they travel, then the edge. A spot's new value depends on its
 * four neighbours alone, in a fixed order of additions, and the greatest
 * change is a maximum: so any number of ranks gives the same bits.
 */
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <png.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG_INPUT = 2 };

static const double HEATER = 0.98; /* this bright and brighter is always hot */

typedef struct {
    const char *image, *output, *raw;
    long steps, every;
    double tolerance, loss;
    int quiet;
} Options;

/* The whole plate (rank 0 only), row by row. */
typedef struct {
    int width, height;
    double *heat;
} Plate;

/* One rank's rectangle. `now` and `next` have a frame one spot wide for the neighbours' values;
   therefore a row has width + 2 of them. */
typedef struct {
    int rank, ranks;
    int columns, rows;          /* how many rectangles lie side by side, and one above the other */
    int plate_width, plate_height;
    int x, y, width, height;    /* this rank's rectangle of the plate */
    int north, south, west, east;
    double kept;                /* of a spot's warmth in a step: 1 - what the air takes */
    double *now, *next;
    unsigned char *held;
    double *column_out[2], *column_in[2];
} Block;

/* ---- saying what is wrong ------------------------------------------------ */

static void give_up(const char *format, ...)
{
    char line[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "heat: %s\n", line);
    MPI_Abort(MPI_COMM_WORLD, EXIT_WRONG_INPUT);
    exit(EXIT_WRONG_INPUT); /* Abort does not return; the compiler can't know */
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        give_up("no memory for %zu values of %zu bytes", count, size);
    return memory;
}

/* ---- command line -------------------------------------------------------- */

static const char USAGE[] =
    "usage: mpiexec -n RANKS heat [options] IMAGE\n"
    "\n"
    "Lets the heat in IMAGE (PNG or PGM; bright is warm) spread until it settles.\n"
    "White pixels are heaters and stay hot; the outermost pixels keep their warmth.\n"
    "\n"
    "  -o FILE   the picture to write (heat.png)\n"
    "  -n STEPS  stop after that many steps (20000)\n"
    "  -t TOL    settled when no spot changes by more than that in a step (1e-5)\n"
    "  -a LOSS   the part of its warmth that a spot loses to the air in a step (0.002)\n"
    "  -e STEPS  look for settling every so many steps (50)\n"
    "  -q        no progress lines\n"
    "  --raw FILE  also write the final values: doubles, row by row\n"
    "  --help    this text\n";

static double number(const char *option, const char *text)
{
    char *end;
    double value;
    if (!text)
        give_up("%s needs a value", option);
    errno = 0;
    value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value) || value < 0)
        give_up("%s %s: not a number that is 0 or more", option, text);
    return value;
}

static long steps(const char *option, const char *text)
{
    double value = number(option, text);
    if (value < 1 || value > 1e9 || value != floor(value))
        give_up("%s %s: not a number of steps from 1 to 1e9", option, text);
    return (long)value;
}

static double share_of_one(const char *option, const char *text)
{
    double value = number(option, text);
    if (value > 1)
        give_up("%s %s: more than there is; give a number from 0 to 1", option, text);
    return value;
}

static const char *file(const char *option, const char *text)
{
    if (!text || !*text)
        give_up("%s needs a file name", option);
    return text;
}

/* Rank 0 reads the command line; -1 requests the usage. */
static int read_options(int argc, char **argv, Options *options)
{
    int i;
    *options = (Options){.output = "heat.png", .steps = 20000, .every = 50, .tolerance = 1e-5, .loss = 0.002};
    for (i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "--help") || !strcmp(word, "-h"))
            return -1;
        else if (!strcmp(word, "-q"))
            options->quiet = 1;
        else if (!strcmp(word, "-o"))
            options->output = file(word, argv[++i]);
        else if (!strcmp(word, "--raw"))
            options->raw = file(word, argv[++i]);
        else if (!strcmp(word, "-n"))
            options->steps = steps(word, argv[++i]);
        else if (!strcmp(word, "-e"))
            options->every = steps(word, argv[++i]);
        else if (!strcmp(word, "-t"))
            options->tolerance = number(word, argv[++i]);
        else if (!strcmp(word, "-a"))
            options->loss = share_of_one(word, argv[++i]);
        else if (word[0] == '-')
            give_up("unknown option %s; --help lists them", word);
        else if (options->image)
            give_up("one image at a time: %s or %s?", options->image, word);
        else
            options->image = word;
    }
    if (!options->image)
        give_up("which image? Give a PNG or PGM file; --help says more");
    return 0;
}

/* ---- pictures ------------------------------------------------------------ */

static void new_plate(Plate *plate, const char *path, double width, double height)
{
    if (width < 3 || height < 3 || width * height > 1e8)
        give_up("%s: %.0f x %.0f pixels; it takes 3 x 3 at least and 100 million at most", path, width, height);
    plate->width = (int)width;
    plate->height = (int)height;
    plate->heat = allocate((size_t)plate->width * (size_t)plate->height, sizeof(double));
}

static void read_png(const char *path, Plate *plate)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    png_color black = {0, 0, 0};
    unsigned char *pixels;
    size_t i, count;
    if (!png_image_begin_read_from_file(&image, path))
        give_up("%s: %s", path, image.message);
    new_plate(plate, path, image.width, image.height);
    image.format = PNG_FORMAT_GRAY;
    count = (size_t)plate->width * (size_t)plate->height;
    pixels = allocate(count, 1);
    if (!png_image_finish_read(&image, &black, pixels, 0, NULL))
        give_up("%s: %s", path, image.message);
    for (i = 0; i < count; i++)
        plate->heat[i] = pixels[i] / 255.0;
    free(pixels);
}

/* The next number of a PGM's header or of a plain PGM's pixels, -1 if none. */
static long pgm_number(FILE *in)
{
    int c = fgetc(in);
    long value = 0;
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = fgetc(in);
        else
            c = fgetc(in);
    }
    if (c < '0' || c > '9')
        return -1;
    for (; c >= '0' && c <= '9' && value < 100000000; c = fgetc(in))
        value = value * 10 + (c - '0');
    return value; /* the one character after it is eaten, as the format has it */
}

static void read_pgm(const char *path, FILE *in, int plain, Plate *plate)
{
    long width = pgm_number(in), height = pgm_number(in), white = pgm_number(in);
    size_t i, count;
    if (width < 0 || height < 0 || white < 1 || white > 65535)
        give_up("%s: a PGM with a broken header", path);
    new_plate(plate, path, (double)width, (double)height);
    count = (size_t)width * (size_t)height;
    for (i = 0; i < count; i++) {
        long value = plain ? pgm_number(in) : fgetc(in);
        if (!plain && white > 255 && value >= 0) {
            int low = fgetc(in);
            value = low < 0 ? -1 : value * 256 + low;
        }
        if (value < 0 || value > white)
            give_up("%s: pixel %zu of %zu is missing or brighter than %ld", path, i + 1, count, white);
        plate->heat[i] = (double)value / (double)white;
    }
}

static void read_image(const char *path, Plate *plate)
{
    FILE *in = fopen(path, "rb");
    unsigned char magic[8] = {0};
    size_t got;
    if (!in)
        give_up("%s: %s", path, strerror(errno));
    got = fread(magic, 1, sizeof magic, in);
    if (got == 8 && !png_sig_cmp(magic, 0, 8)) {
        read_png(path, plate);
    } else if (got >= 2 && magic[0] == 'P' && (magic[1] == '2' || magic[1] == '5')) {
        fseek(in, 2, SEEK_SET);
        read_pgm(path, in, magic[1] == '2', plate);
    } else {
        give_up("%s: neither a PNG nor a PGM (P2 or P5) picture", path);
    }
    fclose(in);
}

/* Black through violet, red and orange to pale yellow. */
static void colour(double heat, unsigned char *rgb)
{
    static const unsigned char stops[][3] = {
        {0, 0, 4},     {27, 12, 65},  {74, 12, 107}, {120, 28, 109}, {165, 44, 96},
        {207, 68, 70}, {237, 105, 37}, {251, 155, 6}, {247, 209, 61}, {252, 255, 164}};
    const int last = (int)(sizeof stops / sizeof *stops) - 1;
    double place = fmin(fmax(heat, 0), 1) * last;
    int below = place < last ? (int)place : last - 1, i;
    for (i = 0; i < 3; i++)
        rgb[i] = (unsigned char)lround(stops[below][i] + (place - below) * (stops[below + 1][i] - stops[below][i]));
}

static void write_picture(const char *path, const Plate *plate)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    size_t i, count = (size_t)plate->width * (size_t)plate->height;
    unsigned char *pixels = allocate(count, 3);
    image.width = (png_uint_32)plate->width;
    image.height = (png_uint_32)plate->height;
    for (i = 0; i < count; i++)
        colour(plate->heat[i], pixels + 3 * i);
    if (!png_image_write_to_file(&image, path, 0, pixels, 0, NULL))
        give_up("%s: %s", path, image.message);
    free(pixels);
}

static void write_raw(const char *path, const Plate *plate)
{
    FILE *out = fopen(path, "wb");
    size_t count = (size_t)plate->width * (size_t)plate->height;
    int whole = out && fwrite(plate->heat, sizeof(double), count, out) == count;
    if (!out || fclose(out) || !whole)
        give_up("%s: %s", path, strerror(errno));
}

/* ---- cutting the plate --------------------------------------------------- */

static int cut(int length, int parts, int part)
{
    return (int)((long long)length * part / parts);
}

/* The grid of ranks whose rectangles have the shortest edges in common. */
static void choose_grid(Block *block)
{
    double best = INFINITY;
    int columns;
    for (columns = 1; columns <= block->ranks; columns++) {
        int rows = block->ranks / columns;
        double edges = (double)(columns - 1) * block->plate_height + (double)(rows - 1) * block->plate_width;
        if (columns * rows != block->ranks || columns > block->plate_width || rows > block->plate_height)
            continue;
        if (edges < best) {
            best = edges;
            block->columns = columns;
            block->rows = rows;
        }
    }
    if (isinf(best) && block->rank == 0)
        give_up("%d ranks can't share %d x %d pixels", block->ranks, block->plate_width, block->plate_height);
}

static void rectangle(const Block *block, int rank, int *x, int *y, int *width, int *height)
{
    int column = rank % block->columns, row = rank / block->columns;
    *x = cut(block->plate_width, block->columns, column);
    *y = cut(block->plate_height, block->rows, row);
    *width = cut(block->plate_width, block->columns, column + 1) - *x;
    *height = cut(block->plate_height, block->rows, row + 1) - *y;
}

static size_t at(const Block *block, int x, int y)
{
    return (size_t)(y + 1) * (size_t)(block->width + 2) + (size_t)(x + 1);
}

static void place_block(Block *block)
{
    int column, row, side;
    size_t spots;
    choose_grid(block);
    rectangle(block, block->rank, &block->x, &block->y, &block->width, &block->height);
    column = block->rank % block->columns;
    row = block->rank / block->columns;
    block->north = row > 0 ? block->rank - block->columns : MPI_PROC_NULL;
    block->south = row < block->rows - 1 ? block->rank + block->columns : MPI_PROC_NULL;
    block->west = column > 0 ? block->rank - 1 : MPI_PROC_NULL;
    block->east = column < block->columns - 1 ? block->rank + 1 : MPI_PROC_NULL;
    spots = (size_t)(block->width + 2) * (size_t)(block->height + 2);
    block->now = allocate(spots, sizeof(double));
    block->next = allocate(spots, sizeof(double));
    block->held = allocate(spots, 1);
    for (side = 0; side < 2; side++) {
        block->column_out[side] = allocate((size_t)block->height, sizeof(double));
        block->column_in[side] = allocate((size_t)block->height, sizeof(double));
    }
}

static void drop_block(Block *block)
{
    int side;
    for (side = 0; side < 2; side++) {
        free(block->column_out[side]);
        free(block->column_in[side]);
    }
    free(block->held);
    free(block->next);
    free(block->now);
}

/* ---- rank 0's plate and the blocks of all ranks --------------------------- */

typedef struct {
    int *counts, *starts;
    double *packed; /* all rectangles one after the other; rank 0 only */
    double *mine;
} Parcel;

static Parcel new_parcel(const Block *block)
{
    Parcel parcel = {0};
    size_t spots = (size_t)block->plate_width * (size_t)block->plate_height;
    int rank, x, y, width, height, start = 0;
    parcel.mine = allocate((size_t)block->width * (size_t)block->height, sizeof(double));
    if (block->rank != 0)
        return parcel;
    parcel.counts = allocate((size_t)block->ranks, sizeof(int));
    parcel.starts = allocate((size_t)block->ranks, sizeof(int));
    parcel.packed = allocate(spots, sizeof(double));
    for (rank = 0; rank < block->ranks; rank++) {
        rectangle(block, rank, &x, &y, &width, &height);
        parcel.counts[rank] = width * height;
        parcel.starts[rank] = start;
        start += width * height;
    }
    return parcel;
}

static void drop_parcel(Parcel *parcel)
{
    free(parcel->counts);
    free(parcel->starts);
    free(parcel->packed);
    free(parcel->mine);
}

/* Copies between the plate and the rectangles one after the other. */
static void pack_plate(const Block *block, const Parcel *parcel, Plate *plate, int unpack)
{
    int rank, x, y, width, height, row;
    for (rank = 0; rank < block->ranks; rank++) {
        double *packed = parcel->packed + parcel->starts[rank];
        rectangle(block, rank, &x, &y, &width, &height);
        for (row = 0; row < height; row++, packed += width) {
            double *line = plate->heat + (size_t)(y + row) * (size_t)plate->width + x;
            memcpy(unpack ? line : packed, unpack ? packed : line, (size_t)width * sizeof(double));
        }
    }
}

static void spread_plate(Block *block, Plate *plate)
{
    Parcel parcel = new_parcel(block);
    int x, y;
    if (block->rank == 0)
        pack_plate(block, &parcel, plate, 0);
    MPI_Scatterv(parcel.packed, parcel.counts, parcel.starts, MPI_DOUBLE, parcel.mine,
                 block->width * block->height, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (y = 0; y < block->height; y++)
        for (x = 0; x < block->width; x++) {
            double heat = parcel.mine[(size_t)y * (size_t)block->width + (size_t)x];
            int px = block->x + x, py = block->y + y;
            int rim = px == 0 || py == 0 || px == block->plate_width - 1 || py == block->plate_height - 1;
            block->now[at(block, x, y)] = block->next[at(block, x, y)] = heat;
            block->held[at(block, x, y)] = rim || heat >= HEATER;
        }
    drop_parcel(&parcel);
}

static void collect_plate(const Block *block, Plate *plate)
{
    Parcel parcel = new_parcel(block);
    int y;
    for (y = 0; y < block->height; y++)
        memcpy(parcel.mine + (size_t)y * (size_t)block->width, &block->now[at(block, 0, y)],
               (size_t)block->width * sizeof(double));
    MPI_Gatherv(parcel.mine, block->width * block->height, MPI_DOUBLE, parcel.packed, parcel.counts,
                parcel.starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (block->rank == 0)
        pack_plate(block, &parcel, plate, 1);
    drop_parcel(&parcel);
}

/* ---- one step ------------------------------------------------------------ */

static void start_exchange(Block *block, MPI_Request requests[8])
{
    const int width = block->width, height = block->height;
    double *now = block->now;
    int y;
    MPI_Irecv(&now[at(block, 0, -1)], width, MPI_DOUBLE, block->north, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&now[at(block, 0, height)], width, MPI_DOUBLE, block->south, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(block->column_in[0], height, MPI_DOUBLE, block->west, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(block->column_in[1], height, MPI_DOUBLE, block->east, 3, MPI_COMM_WORLD, &requests[3]);
    for (y = 0; y < height; y++) {
        block->column_out[0][y] = now[at(block, 0, y)];
        block->column_out[1][y] = now[at(block, width - 1, y)];
    }
    MPI_Isend(&now[at(block, 0, 0)], width, MPI_DOUBLE, block->north, 1, MPI_COMM_WORLD, &requests[4]);
    MPI_Isend(&now[at(block, 0, height - 1)], width, MPI_DOUBLE, block->south, 0, MPI_COMM_WORLD, &requests[5]);
    MPI_Isend(block->column_out[0], height, MPI_DOUBLE, block->west, 3, MPI_COMM_WORLD, &requests[6]);
    MPI_Isend(block->column_out[1], height, MPI_DOUBLE, block->east, 2, MPI_COMM_WORLD, &requests[7]);
}

static void end_exchange(Block *block, MPI_Request requests[8])
{
    int y;
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    for (y = 0; y < block->height; y++) {
        block->now[at(block, -1, y)] = block->column_in[0][y];
        block->now[at(block, block->width, y)] = block->column_in[1][y];
    }
}

/* New values for columns x0 .. x1 of rows y0 .. y1; the greatest change. */
static double relax(Block *block, int x0, int x1, int y0, int y1)
{
    const size_t line = (size_t)block->width + 2;
    const double quarter = 0.25 * block->kept;
    double most = 0;
    int x, y;
    for (y = y0; y < y1; y++) {
        const size_t start = at(block, 0, y);
        const double *now = block->now + start;
        double *next = block->next + start;
        const unsigned char *held = block->held + start;
        for (x = x0; x < x1; x++) {
            double mean = ((now[x - (long)line] + now[x + (long)line]) + (now[x - 1] + now[x + 1])) * quarter;
            double new = held[x] ? now[x] : mean;
            double change = fabs(new - now[x]);
            most = change > most ? change : most;
            next[x] = new;
        }
    }
    return most;
}

static double step(Block *block)
{
    const int width = block->width, height = block->height;
    MPI_Request requests[8];
    double most, *old = block->now;
    start_exchange(block, requests);
    most = relax(block, 1, width - 1, 1, height - 1);
    end_exchange(block, requests);
    most = fmax(most, relax(block, 0, width, 0, 1));
    if (height > 1)
        most = fmax(most, relax(block, 0, width, height - 1, height));
    most = fmax(most, relax(block, 0, 1, 1, height - 1));
    if (width > 1)
        most = fmax(most, relax(block, width - 1, width, 1, height - 1));
    block->now = block->next;
    block->next = old;
    return most;
}

/* ---- the run ------------------------------------------------------------- */

/* One line for every twentieth of the way, whichever end is nearer: the last
 * step, or the tolerance (counted in powers of ten). */
static void show_progress(const Options *options, long done, double first, double change, double seconds,
                          double spots, int *shown)
{
    double by_steps = (double)done / (double)options->steps, by_change = 0;
    int part, i;
    if (change <= options->tolerance)
        by_change = 1;
    else if (options->tolerance > 0 && first > options->tolerance)
        by_change = log(first / change) / log(first / options->tolerance);
    part = (int)(20 * fmin(1, fmax(by_steps, by_change)));
    if (options->quiet || part <= *shown)
        return;
    *shown = part;
    printf("  [");
    for (i = 0; i < 20; i++)
        putchar(i < part ? '#' : '.');
    printf("] %3d %%  step %6ld  change %.2e  %6.0f M spots/s\n", part * 5, done, change,
           spots * (double)done / seconds / 1e6);
    fflush(stdout);
}

/* Returns the number of steps; *change is the last change seen. */
static long run(Block *block, const Options *options, double *change)
{
    const double spots = (double)block->plate_width * block->plate_height;
    double start = MPI_Wtime(), first = 0;
    int shown = 0;
    long done = 0;
    *change = INFINITY;
    while (done < options->steps && *change > options->tolerance) {
        double mine = step(block);
        done++;
        if (done % options->every != 0 && done != options->steps)
            continue;
        MPI_Allreduce(&mine, change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (first == 0)
            first = *change;
        if (block->rank == 0)
            show_progress(options, done, first, *change, MPI_Wtime() - start, spots, &shown);
    }
    return done;
}

static double mean_heat(const Block *block)
{
    double mine = 0, all = 0;
    int x, y;
    for (y = 0; y < block->height; y++)
        for (x = 0; x < block->width; x++)
            mine += block->now[at(block, x, y)];
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all / ((double)block->plate_width * block->plate_height);
}

/* Rank 0 has read everything; the others learn what they need. */
static void share(Options *options, Plate *plate, Block *block)
{
    long counts[2] = {options->steps, options->every};
    double reals[2] = {options->tolerance, options->loss};
    int size[2] = {plate->width, plate->height};
    MPI_Bcast(counts, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Bcast(reals, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(size, 2, MPI_INT, 0, MPI_COMM_WORLD);
    options->steps = counts[0];
    options->every = counts[1];
    options->tolerance = reals[0];
    block->kept = 1 - reals[1];
    block->plate_width = size[0];
    block->plate_height = size[1];
}

static void compute(Options *options, Plate *plate, Block *block)
{
    double start, change, mean;
    long done;
    share(options, plate, block);
    place_block(block);
    if (block->rank == 0)
        printf("%s: %d x %d spots, %d rank%s as %d x %d\n", options->image, plate->width, plate->height,
               block->ranks, block->ranks == 1 ? "" : "s", block->columns, block->rows);
    spread_plate(block, plate);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    done = run(block, options, &change);
    mean = mean_heat(block);
    collect_plate(block, plate);
    if (block->rank != 0)
        return;
    printf("%s after %ld steps in %.2f s: change %.2e, mean warmth %.4f\n",
           change <= options->tolerance ? "settled" : "stopped", done, MPI_Wtime() - start, change, mean);
    write_picture(options->output, plate);
    printf("wrote %s\n", options->output);
    if (options->raw)
        write_raw(options->raw, plate);
}

int main(int argc, char **argv)
{
    Options options = {0};
    Plate plate = {0};
    Block block = {0};
    int help = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &block.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &block.ranks);
    if (block.rank == 0) {
        help = read_options(argc, argv, &options) < 0;
        if (help)
            fputs(USAGE, stdout);
        else
            read_image(options.image, &plate);
    }
    MPI_Bcast(&help, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!help)
        compute(&options, &plate, &block);
    drop_block(&block);
    free(plate.heat);
    MPI_Finalize();
    return 0;
}
