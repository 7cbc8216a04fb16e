import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.yahoo.component.ComponentId;
import com.yahoo.component.provider.ComponentRegistry;
import com.yahoo.schema.ApplicationBuilder;
import com.yahoo.schema.derived.DerivedConfiguration;
import com.yahoo.search.Query;
import com.yahoo.search.Result;
import com.yahoo.search.ranking.GlobalPhaseRanker;
import com.yahoo.search.ranking.RankProfilesEvaluator;
import com.yahoo.search.ranking.RankProfilesEvaluatorFactory;
import com.yahoo.search.result.FeatureData;
import com.yahoo.search.result.Hit;
import com.yahoo.tensor.Tensor;
import com.yahoo.vespa.config.search.RankProfilesConfig;
import com.yahoo.vespa.config.search.core.OnnxModelsConfig;
import com.yahoo.vespa.config.search.core.RankingConstantsConfig;
import com.yahoo.vespa.config.search.core.RankingExpressionsConfig;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads {"schema", "profile", "inputs", "hits": [{rank feature: value}]}, one a line, and prints {"order", "scores"} or {"error"}.
 *
 * <p>A schema is compiled to the configuration of the nodes, as a deployment does it. From that, the first phase is computed by
 * Vespa's evaluator in Java, and the global phase by the very code of a container.
 */
public final class Rank {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Rank last = null; // compiling takes longer than ranking
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Object answer;
            try {
                JsonNode request = JSON.readTree(line);
                if (last == null || !last.schema.equals(request.get("schema").asText())) {
                    last = new Rank(request.get("schema").asText(), request.get("profile").asText());
                }
                answer = last.ranked(request.get("hits"), request.get("inputs"));
            } catch (Exception error) {
                answer = Map.of("error", messages(error));
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0); // threads of the compiler would keep the program alive
    }

    private static String messages(Throwable error) {
        return error == null ? "" : error.getMessage() + "; " + messages(error.getCause());
    }

    private final String schema;
    private final String profile;
    private final Map<String, Double> inputs = new HashMap<>();
    private final RankProfilesConfig.Rankprofile config;
    private final RankProfilesEvaluator evaluator;

    private Rank(String schema, String profile) throws Exception {
        this.schema = schema;
        this.profile = profile;
        var builder = ApplicationBuilder.createFromString(schema);
        var derived = new DerivedConfiguration(builder.getSchema(), builder.getRankProfileRegistry());
        var profiles = new RankProfilesConfig.Builder();
        derived.getRankProfileList().getRankProfilesConfig().forEach(profiles::rankprofile);
        config = profiles.build().rankprofile().stream().filter(each -> each.name().equals(profile)).findAny().orElseThrow();
        evaluator = new RankProfilesEvaluator(profiles.build(), new RankingConstantsConfig.Builder().build(),
            new RankingExpressionsConfig.Builder().build(), new OnnxModelsConfig.Builder().build(), null, null);
    }

    private Map<String, Object> ranked(JsonNode hits, JsonNode given) {
        inputs.clear();
        given.properties().forEach(each -> inputs.put(each.getKey(), each.getValue().asDouble()));
        boolean global = config.fef().property().stream().anyMatch(each -> each.name().equals("vespa.rank.globalphase"));
        Query query = new Query("?ranking=" + profile);
        inputs.forEach((name, value) -> query.getRanking().getFeatures().put(name, value));
        Result result = new Result(query);
        for (int number = 0; number < hits.size(); number++) {
            Hit hit = new Hit(String.valueOf(number), global ? 0.0 : function("firstphase", hits.get(number)));
            hit.setField("matchfeatures", new FeatureData(matchFeatures(hits.get(number))));
            result.hits().add(hit);
        }
        if (global) {
            var registry = new ComponentRegistry<RankProfilesEvaluator>();
            registry.register(ComponentId.fromString("ranking-expression-evaluator.product"), evaluator);
            new GlobalPhaseRanker(new RankProfilesEvaluatorFactory(registry)).rerankHits(query, result, "product");
        }
        result.hits().sort();
        List<Integer> order = new ArrayList<>();
        Double[] scores = new Double[hits.size()];
        for (Hit hit : result.hits().asList()) {
            order.add(Integer.valueOf(hit.getId().toString()));
            scores[order.get(order.size() - 1)] = hit.getRelevance().getScore();
        }
        return Map.of("order", order, "scores", scores);
    }

    /** What a content node sends along with a hit, under the names that the container knows it by. */
    private Map<String, Tensor> matchFeatures(JsonNode hit) {
        Map<String, Tensor> values = new HashMap<>();
        for (var property : config.fef().property()) {
            if (property.name().equals("vespa.match.feature")) {
                values.put(bare(property.value()), Tensor.from(value(property.value(), hit)));
            }
        }
        return values;
    }

    private double function(String name, JsonNode hit) {
        var function = evaluator.modelForRankProfile(profile).evaluatorOf(name);
        for (String argument : function.function().arguments()) {
            function.bind(argument, value(argument, hit));
        }
        return function.evaluate().asDouble();
    }

    private static String bare(String feature) {
        return feature.replaceFirst("^rankingExpression\\((.*)\\)$", "$1");
    }

    /** Of an input, a function of the profile, or a rank feature. */
    private double value(String feature, JsonNode hit) {
        if (feature.startsWith("query(")) {
            return input(feature);
        }
        return feature.equals(bare(feature)) ? hit.get(feature).asDouble() : function(bare(feature), hit);
    }

    /** The value of a request, or else the default that the profile declares. */
    private double input(String name) {
        Double given = inputs.get(name);
        return given != null ? given : Double.parseDouble(config.fef().property().stream()
            .filter(each -> each.name().equals(name)).findAny().orElseThrow().value());
    }
}
